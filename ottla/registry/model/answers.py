"""JSON of schemas in responses: only the fields documented by Confluent, since older Java clients reject others.

Clients that declare support for more get the newer fields, too (`extended`).
"""

from __future__ import annotations

from ottla.registry.model.contracts import Json
from ottla.registry.model.records import SchemaVersion


def version_json(version: SchemaVersion, text: str | None = None, *, extended: bool = False) -> Json:
    """Describe a version of a subject; `text` replaces the stored format."""
    answer: Json = {"subject": version.subject, "version": version.version, "id": version.id}
    if extended:
        answer["guid"] = version.guid
    answer |= _content(version, text)
    if extended:
        answer |= _when(version)
    return answer


def schema_json(
    version: SchemaVersion, text: str | None = None, *, extended: bool = False, max_id: int | None = None
) -> Json:
    answer = _content(version, text)
    if extended:
        answer |= {"guid": version.guid, **_when(version)}
    if max_id is not None:
        answer["maxId"] = max_id
    return answer


def registered_json(version: SchemaVersion, *, extended: bool = False, with_content: bool = False) -> Json:
    """Describe a registered schema. `with_content` adds the content if it differs from the request."""
    if not extended:
        return {"id": version.id}
    answer: Json = {"id": version.id, "version": version.version, "guid": version.guid}
    if with_content:
        answer |= _content(version, None)
    return answer | _when(version)


def _content(version: SchemaVersion, text: str | None) -> Json:
    content: Json = {"schemaType": version.schema_type}
    if version.references:
        content["references"] = [each.to_json() for each in version.references]
    if version.metadata is not None:
        content["metadata"] = version.metadata
    if version.rule_set is not None:
        content["ruleSet"] = version.rule_set
    content["schema"] = version.schema if text is None else text
    return content


def _when(version: SchemaVersion) -> Json:
    when: Json = {} if version.timestamp < 0 else {"ts": version.timestamp}
    return when | {"deleted": version.deleted}
