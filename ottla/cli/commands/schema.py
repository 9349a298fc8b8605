"""`ottla schema …`"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from ottla.cli import output
from ottla.cli.errors import JobError
from ottla.cli.http_services import Refused, check_url, service_options
from ottla.cli.options import confirm_or_exit, json_option, yes_option

# Client for any schema registry with Confluent's API.

DEFAULT_URL = "http://localhost:8081"


class RegistryClient:
    def __init__(self, url: str, user: str | None, ca: str | None, timeout: float) -> None:
        from ottla.client.errors import ClientError
        from ottla.client.schema_registry import RegistrySettings, SchemaRegistry

        check_url(url, "a registry", DEFAULT_URL)
        given = {"schema.registry.url": url, "schema.registry.request.timeout.ms": str(int(timeout * 1000))}
        if user is not None:
            given["schema.registry.basic.auth.user.info"] = user
        if ca is not None:
            given["schema.registry.ssl.truststore.location"] = ca
        try:
            self._registry = SchemaRegistry(RegistrySettings.from_properties(given))
        except ClientError as error:
            raise JobError(error.message) from None

    def get(self, *path: str, query: str = "") -> Any:
        return self._ask("GET", path, query)

    def post(self, body: object, *path: str, query: str = "") -> Any:
        return self._ask("POST", path, query, body)

    def put(self, body: object, *path: str) -> Any:
        return self._ask("PUT", path, "", body)

    def delete(self, *path: str, query: str = "") -> Any:
        return self._ask("DELETE", path, query)

    def _ask(self, method: str, path: tuple[str, ...], query: str, body: object = None) -> Any:
        from ottla.client.errors import ClientError, Unreachable
        from ottla.client.json_server import path_of
        from ottla.client.schema_registry import RegistryError

        where = path_of(*path) + (f"?{query}" if query else "")
        try:
            return self._registry.request(method, where, body)
        except RegistryError as error:
            raise (
                Refused(error.error_code, error.reason) if error.reason else JobError(error.message)
            ) from None
        except Unreachable as error:
            raise JobError(
                f"{error.message} Start one with 'ottla start --registry', or name another with --registry-url."
            ) from None
        except ClientError as error:
            raise JobError(error.message) from None


#: How to reach the registry; the command gets a `registry` in their place.
registry_options = service_options(
    "registry",
    RegistryClient,
    url_option=("--registry-url", "-r"),
    environment="OTTLA_SCHEMA_REGISTRY",
    default_url=DEFAULT_URL,
    what="a registry",
    named="the schema registry",
    timeout=30.0,
)

# `ottla schema`

_LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
_TYPES = {".avsc": "AVRO", ".avro": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
_NO_CONFIG = (40401, 40408)

_file = click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path), metavar="FILE"
)
_type_option = click.option(
    "--type",
    "schema_type",
    type=click.Choice(["AVRO", "JSON", "PROTOBUF"], case_sensitive=False),
    help="Type of the schema. [default: by the file name: .avsc, .json or .proto]",
)
_reference_option = click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="NAME=SUBJECT:VERSION",
    help="Schema that this schema references by NAME. May be repeated.",
)


@click.group(short_help="List, show, register, check and delete schemas in a registry.")
def schema() -> None:
    """List, register, compare and delete schemas in Ottla's registry, or in any registry with Confluent's API.

    \b
    Examples:
      ottla schema register orders-value order.avsc
      ottla schema list
      ottla schema show orders-value
      ottla schema check orders-value new-order.avsc
      ottla schema compat orders-value FULL
    """


@schema.command("list")
@click.option("--deleted", is_flag=True, help="Include soft-deleted subjects.")
@json_option()
@registry_options
def list_schemas(registry: RegistryClient, deleted: bool, as_json: bool) -> None:
    """List the subjects with their latest versions."""
    query = "latestOnly=true" + ("&deleted=true" if deleted else "")
    found = registry.get("schemas", query=query)
    rows = [
        {
            "subject": each["subject"],
            "version": each["version"],
            "id": each["id"],
            "type": each.get("schemaType", "AVRO"),
        }
        for each in found
    ]
    if as_json:
        output.print_json(rows)
    else:
        output.print_table(
            ["Subject", "Version", "Id", "Type"],
            [[row["subject"], row["version"], row["id"], row["type"]] for row in rows],
        )


@schema.command()
@click.argument("subject", required=False)
@click.option("--version", "-v", "version", default="latest", show_default=True, metavar="N")
@click.option("--id", "schema_id", type=int, metavar="ID", help="Print the schema with this id.")
@json_option("Print what the registry answers: ids, references, metadata, rules.")
@registry_options
def show(
    registry: RegistryClient, subject: str | None, version: str, schema_id: int | None, as_json: bool
) -> None:
    """Print the schema of a subject, or the schema with an id."""
    if (subject is None) == (schema_id is None):
        raise click.UsageError("Name a subject, or an id with --id.")
    if schema_id is not None:
        found = registry.get("schemas", "ids", str(schema_id))
    else:
        found = registry.get("subjects", str(subject), "versions", version)
    if as_json:
        output.print_json(found)
    else:
        click.echo(_pretty(found))


@schema.command()
@click.argument("subject")
@_file
@_type_option
@_reference_option
@click.option(
    "--normalize", is_flag=True, help="Normalize the schema, so that equivalent spellings get the same id."
)
@registry_options
def register(
    registry: RegistryClient,
    subject: str,
    file: Path,
    schema_type: str | None,
    references: tuple[str, ...],
    normalize: bool,
) -> None:
    """Register the schema in FILE under SUBJECT; - reads standard input."""
    body = _body(file, schema_type, references)
    answer = registry.post(body, "subjects", subject, "versions", query="normalize=true" if normalize else "")
    # Its version is in the answer of newer registries only.
    look_up = registry.post(body, "subjects", subject, query="normalize=true" if normalize else "")
    output.done(f"Version {look_up['version']} of {subject} has id {answer['id']}.")


@schema.command()
@click.argument("subject")
@_file
@_type_option
@_reference_option
@click.option(
    "--version",
    "-v",
    "version",
    metavar="N",
    help="Compare with this version only. [default: the versions that registering compares with]",
)
@registry_options
def check(
    registry: RegistryClient,
    subject: str,
    file: Path,
    schema_type: str | None,
    references: tuple[str, ...],
    version: str | None,
) -> None:
    """Check whether the schema in FILE could be registered under SUBJECT. If not, print the reasons and exit with 1."""
    path = ["compatibility", "subjects", subject, "versions", *([version] if version else [])]
    answer = registry.post(_body(file, schema_type, references), *path, query="verbose=true")
    if not answer["is_compatible"]:
        reasons = "\n".join(f"  {each}" for each in answer.get("messages", ()))
        raise JobError(f"{file} is not compatible with {subject}:\n{reasons}")
    output.done(f"{file} is compatible with {subject}.")


@schema.command()
@click.argument("subject")
@click.argument("older", metavar="OLDER")
@click.argument("newer", metavar="[NEWER]", default="latest")
@registry_options
def diff(registry: RegistryClient, subject: str, older: str, newer: str) -> None:
    """Show the changes between two versions of SUBJECT, or between a version and a file.

    \b
    Examples:
      ottla schema diff orders-value 1
      ottla schema diff orders-value 1 2
      ottla schema diff orders-value latest new-order.avsc
    """
    from difflib import unified_diff

    lines = unified_diff(
        _lines_of(registry, subject, older),
        _lines_of(registry, subject, newer),
        fromfile=f"{subject} {older}",
        tofile=newer if Path(newer).is_file() else f"{subject} {newer}",
    )
    for line in lines:
        colour = {"+": "green", "-": "red"}.get(line[0])
        click.secho(line, fg=colour, nl=False)


def _lines_of(registry: RegistryClient, subject: str, version: str) -> list[str]:
    if not version.isdecimal() and version != "latest":
        path = Path(version)
        if not path.is_file():
            raise click.UsageError(f"'{version}' is neither a version nor a file.")
        found: Any = {"schema": _read(path), "schemaType": _type_of(path, None)}
    else:
        found = registry.get("subjects", subject, "versions", version)
    return (_pretty(found) + "\n").splitlines(keepends=True)


@schema.command()
@click.argument("subject", required=False)
@click.argument("level", required=False, type=click.Choice(_LEVELS, case_sensitive=False))
@registry_options
def compat(registry: RegistryClient, subject: str | None, level: str | None) -> None:
    """Show or set the compatibility level of SUBJECT, or of all subjects.

    \b
    Examples:
      ottla schema compat
      ottla schema compat orders-value
      ottla schema compat orders-value FULL
      ottla schema compat NONE
    """
    if level is None and (subject or "").upper() in _LEVELS:
        subject, level = None, subject
    path = ["config", *([subject] if subject else [])]
    if level is not None:
        registry.put({"compatibility": level.upper()}, *path)
        output.done(f"{subject or 'All subjects'}: {level.upper()}.")
        return
    try:
        click.echo(registry.get(*path)["compatibilityLevel"])
    except Refused as refused:
        if refused.refusal not in _NO_CONFIG:
            raise
        click.echo(f"{registry.get('config')['compatibilityLevel']} (of all subjects)")


@schema.command()
@click.argument("subject")
@click.option("--version", "-v", "version", metavar="N", help="Delete only this version.")
@click.option("--permanent", is_flag=True, help="Delete permanently. Soft-deletes first if necessary.")
@yes_option
@registry_options
def delete(registry: RegistryClient, subject: str, version: str | None, permanent: bool, yes: bool) -> None:
    """Delete SUBJECT or one of its versions. Registering the schema again restores it."""
    path = ["subjects", subject, *(["versions", version] if version else [])]
    what = f"version {version} of {subject}" if version else f"all versions of {subject}"
    confirm_or_exit(f"Delete {what}{' for good' if permanent else ''}?", yes)
    try:
        registry.delete(*path)
    except Refused as refused:
        if not permanent or refused.refusal not in (40404, 40406):  # soft-deleted already
            raise
    if permanent:
        registry.delete(*path, query="permanent=true")
    output.done(f"Deleted {what}.")


# -- schemas in files ------------------------------------------------------------------------------------


def _body(file: Path, schema_type: str | None, references: tuple[str, ...]) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": _read(file), "schemaType": _type_of(file, schema_type)}
    if references:
        body["references"] = [_reference(each) for each in references]
    return body


def _read(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise JobError(f"Cannot read {file}: {reason}.") from None


def _type_of(file: Path, given: str | None) -> str:
    return given.upper() if given else _TYPES.get(file.suffix.lower(), "AVRO")


def _reference(text: str) -> dict[str, Any]:
    name, _, place = text.partition("=")
    subject, _, version = place.rpartition(":")
    if not name or not subject or not version.isdecimal():
        raise click.UsageError(f"'{text}' is not a reference: write NAME=SUBJECT:VERSION.")
    return {"name": name, "subject": subject, "version": int(version)}


def _pretty(found: dict[str, Any]) -> str:
    text: str = found["schema"]
    if found.get("schemaType", "AVRO") == "PROTOBUF":
        return text.rstrip("\n")
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text
