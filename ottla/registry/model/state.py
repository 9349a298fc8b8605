"""State of the registry, built from all records, and schemas as JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ottla.registry.model import records
from ottla.registry.model.contracts import Json
from ottla.registry.model.records import Key, SchemaVersion
from ottla.registry.model.subjects import DEFAULT_CONTEXT, context_of, in_context

# The registry's state: the result of all records in `_schemas`.
#
# Invariant: the same records in the same order give the same state, in every node. Owner: the event loop.

_log = logging.getLogger(__name__)

Place = tuple[str, int]  # subject and version


@dataclass
class Context:
    """Each context assigns its own ids."""

    max_id: int = 0
    by_id: dict[int, dict[Place, SchemaVersion]] = field(default_factory=dict)
    ids: dict[bytes, set[int]] = field(default_factory=dict)  # by MD5 of the content


class State:
    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, SchemaVersion]] = {}
        self.contexts: dict[str, Context] = {DEFAULT_CONTEXT: Context()}
        self.named_contexts: set[str] = set()  # contexts with a CONTEXT record
        self.configs: dict[str | None, Json] = {}
        self.modes: dict[str | None, str] = {}
        self.referrers: dict[Place, set[Place]] = {}
        self.guids: dict[bytes, set[tuple[str, int]]] = {}  # context and id, by MD5
        #: Offset of the last takeover record.
        self.last_noop = -1
        #: Called with context and id of a schema whose places have changed.
        self.on_change: Callable[[str, int], None] | None = None

    # Reading records

    def apply(self, key_bytes: bytes | None, value_bytes: bytes | None, offset: int, timestamp: int) -> None:
        """Apply a record. Malformed records are logged and skipped, so that the others stay readable."""
        key = None if key_bytes is None else records.decode_key(key_bytes)
        if key is None:
            _log.error("Skipped the record at offset %d of the schemas topic: its key is not known.", offset)
            return
        try:
            value = None if value_bytes is None else json.loads(value_bytes)
            if value is not None and not isinstance(value, dict):
                raise ValueError("not an object")
            self._apply(key, value, offset, timestamp)
        except (ValueError, KeyError, TypeError, RecursionError):
            _log.error(
                "Skipped the record at offset %d of the schemas topic: its value is malformed.", offset
            )

    def _apply(self, key: Key, value: Json | None, offset: int, timestamp: int) -> None:
        if key.keytype == records.SCHEMA:
            assert key.subject is not None
            if value is None:
                self._remove((key.subject, key.version))
            else:
                self._put(records.schema_version(value, offset, timestamp))
        elif key.keytype == records.CONFIG:
            _set_or_drop(self.configs, key.subject or None, value)
        elif key.keytype == records.MODE:
            _set_or_drop(self.modes, key.subject or None, None if value is None else str(value["mode"]))
        elif key.keytype == records.DELETE_SUBJECT and value is not None:
            for held in list(self.versions(str(value["subject"]))):
                if held.version <= int(value["version"]):
                    self._put(held.as_deleted())
        elif key.keytype == records.CLEAR_SUBJECT and value is not None:
            for held in list(self.versions(str(value["subject"]), deleted=True)):
                if held.deleted:
                    self._remove((held.subject, held.version))
        elif key.keytype == records.NOOP:
            self.last_noop = offset
        elif key.keytype == records.CONTEXT:
            if value is None:
                self.named_contexts.discard(key.context)
            else:
                self.named_contexts.add(key.context)

    def _put(self, version: SchemaVersion) -> None:
        place = (version.subject, version.version)
        previous = self.subjects.get(version.subject, {}).get(version.version)
        if previous is not None and previous.md5 == version.md5 and previous.id == version.id:
            self._replace(place, version)
            return
        name = context_of(version.subject)
        context = self.contexts.setdefault(name, Context())
        context.max_id = max(context.max_id, version.id)
        others = context.by_id.get(version.id, {})
        if any(each.md5 != version.md5 for held, each in others.items() if held != place):
            # Two nodes wrote at the same time, one without leading: the first record counts, on every node.
            _log.error(
                "Skipped version %d of %s at offset %d: its id %d belongs to another schema.",
                version.version,
                version.subject,
                version.offset,
                version.id,
            )
            return
        if previous is not None:
            self._remove(place)
        versions = self.subjects.setdefault(version.subject, {})
        versions[version.version] = version
        if version.version != max(versions):
            self.subjects[version.subject] = dict(sorted(versions.items()))
        context.by_id.setdefault(version.id, {})[place] = version
        context.ids.setdefault(version.md5, set()).add(version.id)
        self.guids.setdefault(version.md5, set()).add((name, version.id))
        for reference in version.references:
            referred = (in_context(name, reference.subject), reference.version)
            self.referrers.setdefault(referred, set()).add(place)
        self._changed(name, version.id)

    def _replace(self, place: Place, version: SchemaVersion) -> None:
        """Replace a version by the same content, deleted or restored."""
        name = context_of(version.subject)
        self.subjects[version.subject][version.version] = version
        self.contexts[name].by_id[version.id][place] = version
        self._changed(name, version.id)

    def _remove(self, place: Place) -> None:
        version = self.subjects.get(place[0], {}).pop(place[1], None)
        if version is None:
            return
        if not self.subjects[place[0]]:
            del self.subjects[place[0]]
        name = context_of(version.subject)
        context = self.contexts[name]
        places = context.by_id[version.id]
        del places[place]
        if not any(each.md5 == version.md5 for each in places.values()):
            context.ids[version.md5].discard(version.id)
            self.guids[version.md5].discard((name, version.id))
        if not places:
            del context.by_id[version.id]
        for reference in version.references:
            self.referrers[in_context(name, reference.subject), reference.version].discard(place)
        self._changed(name, version.id)

    def _changed(self, context: str, schema_id: int) -> None:
        if self.on_change is not None:
            self.on_change(context, schema_id)

    # Queries

    def versions(self, subject: str, *, deleted: bool = False) -> Iterator[SchemaVersion]:
        """Yield versions in order; soft-deleted ones only with `deleted`."""
        for version in self.subjects.get(subject, {}).values():
            if deleted or not version.deleted:
                yield version

    def latest(self, subject: str, *, deleted: bool = False) -> SchemaVersion | None:
        return max(self.versions(subject, deleted=deleted), key=lambda each: each.version, default=None)

    def version(self, subject: str, number: int, *, deleted: bool = False) -> SchemaVersion | None:
        """Return a version; -1 is the latest."""
        if number == -1:
            return self.latest(subject, deleted=deleted)
        found = self.subjects.get(subject, {}).get(number)
        return found if found is not None and (deleted or not found.deleted) else None

    def places_of(self, context: str, schema_id: int) -> dict[Place, SchemaVersion]:
        held = self.contexts.get(context)
        return {} if held is None else held.by_id.get(schema_id, {})

    def id_of(self, context: str, md5: bytes) -> int | None:
        held = self.contexts.get(context)
        ids = held.ids.get(md5) if held is not None else None
        return min(ids) if ids else None

    def next_id(self, context: str) -> int:
        held = self.contexts.get(context)
        return 1 if held is None else held.max_id + 1

    def referring_to(self, subject: str, version: int) -> list[SchemaVersion]:
        """Return live versions that refer to this one."""
        found = (self.version(*place) for place in self.referrers.get((subject, version), ()))
        return [each for each in found if each is not None]

    def subject_names(self, *, deleted: bool = False, deleted_only: bool = False) -> list[str]:
        names = []
        for subject, versions in self.subjects.items():
            is_deleted = all(each.deleted for each in versions.values())
            if is_deleted if deleted_only else (deleted or not is_deleted):
                names.append(subject)
        return sorted(names)

    def context_names(self) -> list[str]:
        used = {context_of(subject) for subject in self.subjects}
        return sorted({DEFAULT_CONTEXT} | used | self.named_contexts)


def _set_or_drop(
    held: dict[str | None, Json] | dict[str | None, str], key: str | None, value: object
) -> None:
    if value is None:
        held.pop(key, None)
    else:
        held[key] = value  # type: ignore[assignment]


# JSON of schemas in responses: only the fields documented by Confluent, since older Java clients reject others.
#
# Clients that declare support for more get the newer fields, too (`extended`).


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
