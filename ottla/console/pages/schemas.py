"""Schemas: subjects, versions and their differences, and a check before registration."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any

from ottla.client.errors import ClientError
from ottla.client.schema_registry import Reference, RegistryError, Schema, SchemaRegistry
from ottla.console.access.roles import Level
from ottla.console.services.remote import part
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.paging import Change, Plan, is_confirmed, listing, plan_page
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

_MOST_LINES = 4000
_REFERENCE = re.compile(r"\s*(\S+)\s*=\s*(\S+)\s+(\d{1,9})\s*")
TYPES = ("AVRO", "PROTOBUF", "JSON")
LEVELS = (
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "NONE",
)


def routes() -> Iterator[Route]:
    subject = f"{CLUSTER}/schemas/{{subject}}"
    yield Route("GET", f"{CLUSTER}/schemas", subjects, of="schema")
    yield Route("GET", f"{CLUSTER}/new-schema", form, Level.OPERATOR, of="schema", json=False)
    yield Route("POST", f"{CLUSTER}/new-schema", register, Level.OPERATOR, of="schema")
    yield Route("GET", f"{subject}/versions", versions, of="schema")
    yield Route("POST", f"{subject}/compatibility", set_level, Level.OPERATOR, of="schema")
    yield Route("POST", f"{subject}/delete", delete, Level.ADMIN, of="schema")


def registry_of(visit: Visit) -> SchemaRegistry:
    """Raises HttpError 404."""
    if visit.site.registry is None:
        raise HttpError(
            404, 404, "This cluster has no schema registry: give the console its URL with --registry."
        )
    return visit.site.registry


async def subjects(visit: Visit) -> Page | Response:
    """List subjects. Only the visible rows cost a request for their versions."""
    registry = registry_of(visit)
    names = list(filter(visit.user.view("schema"), await visit.site.calls.run(registry.subjects)))
    listed = listing(
        names, visit.query, text=lambda name: name, columns={"subject": lambda name: name}, default="subject"
    )

    def latest() -> list[dict[str, Any]]:
        rows = []
        for name in listed.rows:
            try:
                schema = registry.latest(name)
            except ClientError:
                continue  # deleted in the meantime
            rows.append({"subject": name, "version": schema.version, "id": schema.id, "type": schema.type})
        return rows

    rows = await visit.site.calls.run(latest)
    return Page("schemas/schemas.html", {"subjects": rows, **listed.plain()}, more={"listed": listed})


async def versions(visit: Visit) -> Page | Response:
    registry = registry_of(visit)
    name = visit.params["subject"]
    numbers = await visit.site.calls.run(registry.versions, name)
    chosen = _version(visit, "version", numbers, numbers[-1])
    before = [each for each in numbers if each < chosen]
    against = _version(visit, "against", numbers, before[-1] if before else chosen)

    def read() -> tuple[Schema, str, list[tuple[str, str]]]:
        schema, other = registry.version(name, chosen), registry.version(name, against)
        return schema, _level(registry, name), diff(other, schema) if against != chosen else []

    schema, level, changed = await visit.site.calls.run(read)
    data = {
        "subject": name,
        "versions": numbers,
        "version": chosen,
        "id": schema.id,
        "type": schema.type,
        "schema": schema.text,
        "references": [each._asdict() for each in schema.references],
        "compatibility": level,
        "against": against,
        "diff": changed,
    }
    return Page("schemas/schema.html", data, more={"pretty_schema": pretty(schema), "levels": LEVELS})


def _version(visit: Visit, name: str, known: list[int], default: int) -> int:
    text = visit.query.get(name, "")
    return int(text) if text.isdecimal() and int(text) in known else default


def _level(registry: SchemaRegistry, subject: str) -> str:
    answer = registry.request("GET", f"/config/{part(subject)}", query={"defaultToGlobal": "true"})
    return str(answer.get("compatibilityLevel", ""))


def pretty(schema: Schema) -> str:
    if schema.type == "PROTOBUF":
        return schema.text
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return schema.text


def diff(before: Schema, after: Schema) -> list[tuple[str, str]]:
    """Return lines with their kind: same, added or removed. Very long texts are not compared."""
    old, new = _lines(before), _lines(after)
    if len(old) + len(new) > _MOST_LINES:
        return [("removed", line) for line in old] + [("added", line) for line in new]
    found: list[tuple[str, str]] = []
    for kind, old_from, old_to, new_from, new_to in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if kind == "equal":
            found += [("same", line) for line in old[old_from:old_to]]
        else:
            found += [("removed", line) for line in old[old_from:old_to]]
            found += [("added", line) for line in new[new_from:new_to]]
    return found


def _lines(schema: Schema) -> list[str]:
    references = [f"{each.name} = {each.subject} {each.version}" for each in schema.references]
    return [*pretty(schema).splitlines(), *(f"reference {each}" for each in references)]


# -- changes --


async def form(visit: Visit) -> Page | Response:
    registry = registry_of(visit)
    given = {"subject": visit.query.get("subject", ""), "type": "AVRO", "schema": "", "references": ""}
    if given["subject"]:
        visit.require_of("schema", Level.VIEWER, given["subject"])
        try:
            latest = await visit.site.calls.run(registry.latest, given["subject"])
            given |= {
                "type": latest.type,
                "schema": pretty(latest),
                "references": "\n".join(
                    f"{each.name} = {each.subject} {each.version}" for each in latest.references
                ),
            }
        except ClientError:
            pass  # new subject
    return Page("schemas/new_schema.html", {}, more={"given": given, "types": TYPES, "problem": None})


async def register(visit: Visit) -> Page | Response:
    registry = registry_of(visit)
    subject, kind, text = visit.needed("subject"), visit.form.get("type", "AVRO"), visit.needed("schema")
    visit.require_of("schema", Level.OPERATOR, subject)
    given = {"subject": subject, "type": kind, "schema": text, "references": visit.form.get("references", "")}
    try:
        schema = Schema(text, kind, _references(given["references"]))
        await visit.site.calls.run(_check_text, registry, subject, schema)
        if is_confirmed(visit):
            number = await visit.site.calls.run(registry.register, subject, schema)
            await visit.log("register schema", subject, details={"id": number, "type": kind})
            return visit.redirect(
                visit.url("schemas", subject, "versions"), f"Registered with the id {number}."
            )
        fits, messages, versions_ = await visit.site.calls.run(check, registry, subject, schema)
    except ClientError as error:
        if visit.form.get("confirmed") == "1":
            await visit.log("register schema", subject, f"failed: {error.message}")
        more = {"given": given, "types": TYPES, "problem": error.message}
        return Page("schemas/new_schema.html", {}, 400, more)
    verdict = "it is the first one" if not versions_ else "yes" if fits else "no: the registry will refuse it"
    changes = [
        Change("versions", str(len(versions_)), str(len(versions_) + 1)),
        Change("compatible with the existing versions", "", verdict),
    ]
    plan = Plan(
        f"Register a schema under {subject}", changes, "Register", visit.url("new-schema"), messages,
        is_dangerous=not fits,
    )  # fmt: skip
    return plan_page(visit, plan)


def _references(text: str) -> tuple[Reference, ...]:
    """Parse `name = subject version` lines. Raises ClientError."""
    found = []
    for line in filter(str.strip, text.splitlines()):
        match = _REFERENCE.fullmatch(line)
        if match is None:
            raise ClientError(f"'{line.strip()}' is not 'name = subject version'.")
        found.append(Reference(match[1], match[2], int(match[3])))
    return tuple(found)


def _body(schema: Schema) -> dict[str, Any]:
    references = [each._asdict() for each in schema.references]
    return {"schema": schema.text, "schemaType": schema.type, "references": references}


def _check_text(registry: SchemaRegistry, subject: str, schema: Schema) -> None:
    """Raises ClientError if the text is no schema. Registries look up new subjects without reading the text."""
    try:
        registry.request("POST", f"/subjects/{part(subject)}", _body(schema))
        return
    except RegistryError as error:
        if not error.is_not_found:
            raise
    try:
        from ottla.registry.schemas import InvalidSchema, parse
    except ImportError:
        return  # then the registry checks it when it is registered
    known: dict[str, Any] = {}
    try:
        for name, other in registry.referenced(schema).items():
            known[name] = parse(other.type, other.text, dict(known), stored=True)
        parse(schema.type, schema.text, known)
    except InvalidSchema as error:
        raise ClientError(f"This is no valid schema of type {schema.type}: {error}") from None


def check(registry: SchemaRegistry, subject: str, schema: Schema) -> tuple[bool, list[str], list[int]]:
    """Return True if a schema fits the existing versions, the problems, and those versions. Raises ClientError."""
    try:
        versions_ = registry.versions(subject)
    except ClientError as error:
        if getattr(error, "error_code", 40401) != 40401:
            raise
        versions_ = []
    body = _body(schema)
    path = f"/compatibility/subjects/{part(subject)}/versions"
    if versions_:
        answer = registry.request("POST", path, body, {"verbose": "true"})
        return bool(answer["is_compatible"]), list(answer.get("messages") or []), versions_
    return True, [], versions_


async def set_level(visit: Visit) -> Page | Response:
    registry = registry_of(visit)
    subject, level = visit.params["subject"], visit.needed("level")
    if level not in LEVELS:
        raise HttpError(400, 400, f"The level must be one of {', '.join(LEVELS)}.")
    await visit.site.calls.run(registry.request, "PUT", f"/config/{part(subject)}", {"compatibility": level})
    await visit.log("set compatibility", subject, details={"level": level})
    return visit.redirect(visit.url("schemas", subject, "versions"), f"New versions must be {level} now.")


async def delete(visit: Visit) -> Page | Response:
    registry = registry_of(visit)
    subject = visit.params["subject"]
    if is_confirmed(visit, subject):
        await visit.site.calls.run(registry.request, "DELETE", f"/subjects/{part(subject)}")
        await visit.log("delete subject", subject)
        return visit.redirect(visit.url("schemas"), f"Subject '{subject}' was deleted.")
    count = len(await visit.site.calls.run(registry.versions, subject))
    changes = [Change("versions", str(count), "deleted")]
    warning = "Messages that were written with them can still be read: the ids stay known."
    plan = Plan(f"Delete subject {subject}", changes, "Delete subject", visit.url("schemas", subject, "versions"),
                [warning], is_dangerous=True, typed=subject)  # fmt: skip
    return plan_page(visit, plan)
