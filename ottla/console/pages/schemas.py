"""Schemas: subjects, versions and their differences, and a check before registration."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

from ottla.client.errors import ClientError
from ottla.client.schema_registry import Schema, SchemaRegistry
from ottla.console.access.roles import Level
from ottla.console.remote import part
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.paging import Change, Plan, is_confirmed, listing, plan_page
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

_MOST_LINES = 4000
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
    old, new = pretty(before).splitlines(), pretty(after).splitlines()
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


# -- changes --


async def form(visit: Visit) -> Page | Response:
    registry = registry_of(visit)
    given = {"subject": visit.query.get("subject", ""), "type": "AVRO", "schema": ""}
    if given["subject"]:
        visit.require_of("schema", Level.VIEWER, given["subject"])
        try:
            latest = await visit.site.calls.run(registry.latest, given["subject"])
            given |= {"type": latest.type, "schema": pretty(latest)}
        except ClientError:
            pass  # new subject
    return Page("schemas/new_schema.html", {}, more={"given": given, "types": TYPES, "problem": None})


async def register(visit: Visit) -> Page | Response:
    registry = registry_of(visit)
    subject, kind, text = visit.needed("subject"), visit.form.get("type", "AVRO"), visit.needed("schema")
    visit.require_of("schema", Level.OPERATOR, subject)
    schema = Schema(text, kind)
    try:
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
        given = {"subject": subject, "type": kind, "schema": text}
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


def check(registry: SchemaRegistry, subject: str, schema: Schema) -> tuple[bool, list[str], list[int]]:
    """Return True if a schema fits the existing versions, the problems, and those versions. Raises ClientError."""
    try:
        versions_ = registry.versions(subject)
    except ClientError as error:
        if getattr(error, "error_code", 40401) != 40401:
            raise
        versions_ = []
    body = {"schema": schema.text, "schemaType": schema.type}
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
