"""`/schemas`: schemas by their ids and guids."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Mapping

from ottla.http import HttpError, Request, Response
from ottla.http.forwarding import Forwarder
from ottla.registry import errors
from ottla.registry.api.resource import (
    Resource,
    answer,
    context_of_path,
    flag,
    is_extended,
    page,
    with_references,
)
from ottla.registry.api.subjects import has_prefix, tags_of
from ottla.registry.model.contracts import Json
from ottla.registry.model.parsing import TYPES
from ottla.registry.model.records import SchemaVersion, to_bytes
from ottla.registry.model.state import Place, schema_json, version_json
from ottla.registry.model.subjects import ANY_CONTEXT, context_of, in_context, parse_subject
from ottla.registry.node import Node
from ottla.registry.security import Rights

_MOST_CACHED = 100_000
_LARGEST = 2**31 - 1


class Schemas(Resource):
    def __init__(self, node: Node, forwarder: Forwarder, rights: Rights) -> None:
        super().__init__(node, forwarder, rights)
        # Response bytes by request. A schema with an id never changes.
        self._cache: OrderedDict[tuple[str, int, bool], bytes] = OrderedDict()
        node.store.on_restart = self._cache.clear
        node.store.state.on_change = self._forget

    def _forget(self, context: str, schema_id: int) -> None:
        self._cache.pop((context, schema_id, True), None)
        self._cache.pop((context, schema_id, False), None)

    def get_by_id(self, request: Request) -> Response:
        params = request.params
        text = params["id"]
        if not request.query_string and "context" not in params and text.isdecimal():
            key = (".", int(text), is_extended(request))
            body = self._cache.get(key)
            if body is None:
                body = to_bytes(self._by_id(request))
                self._cache[key] = body
                if len(self._cache) > _MOST_CACHED:
                    self._cache.popitem(last=False)
            return Response(200, body, request.produces)
        return answer(request, self._by_id(request))

    def _by_id(self, request: Request) -> Json:
        version = self._one(request, self._places(request))
        max_id = None
        if flag(request, "fetchMaxId"):
            max_id = self.state.next_id(context_of(version.subject)) - 1
        text = self.formatted(request, version)
        answered = with_references(request, version)
        found = schema_json(answered, text, extended=is_extended(request), max_id=max_id)
        return found | tags_of(request, version)

    def get_text_by_id(self, request: Request) -> Response:
        version = self._one(request, self._places(request))
        text = self.formatted(request, version)
        return Response(200, (version.schema if text is None else text).encode(), request.produces)

    def list_subjects_of(self, request: Request) -> Response:
        subjects = sorted({subject for subject, _ in self._live_places(request)})
        return answer(request, page(request, subjects))

    def list_versions_of(self, request: Request) -> Response:
        places = sorted(self._live_places(request))
        return answer(
            request, page(request, [{"subject": subject, "version": number} for subject, number in places])
        )

    def _live_places(self, request: Request) -> list[Place]:
        """Return the places of the id. `deleted=true` includes deleted ones; `subject=` selects a subject."""
        places = self._places(request)
        subject = request.query.get("subject")
        name = parse_subject(subject).name if subject else ""
        return [
            place
            for place, version in places.items()
            if (flag(request, "deleted") or not version.deleted)
            and (not name or parse_subject(place[0]).name == name)
            and self.rights.may_read(request, place[0])
        ]

    def _places(self, request: Request) -> Mapping[Place, SchemaVersion]:
        """Return the uses of the id in the selected context."""
        text = request.params["id"]
        if not (text.isascii() and text.isdecimal()) or int(text) > _LARGEST:
            raise HttpError(404, 404, "HTTP 404 Not Found")
        schema_id = int(text)
        context = context_of_path(request)
        subject = request.query.get("subject", "")
        places = self.state.places_of(context_of(in_context(context, subject)), schema_id)
        if not places and subject and not subject.startswith(":."):
            # The subject may be in another context than its name suggests.
            for other in self.state.context_names():
                found = self.state.places_of(other, schema_id)
                if any(parse_subject(place[0]).name == subject for place in found):
                    places = found
        if not places:
            raise errors.schema_not_found(schema_id)
        return places

    def _one(self, request: Request, places: Mapping[Place, SchemaVersion]) -> SchemaVersion:
        """Return the schema, preferring versions that are not deleted and belong to the requested subject."""
        subject = parse_subject(request.query.get("subject", "")).name
        return min(
            places.values(),
            key=lambda each: (
                bool(subject) and parse_subject(each.subject).name != subject,
                each.deleted,
                each.subject,
                each.version,
            ),
        )

    # By guid

    def get_by_guid(self, request: Request) -> Response:
        version = self._by_guid(request)[0]
        return answer(
            request, schema_json(version, self.formatted(request, version), extended=is_extended(request))
        )

    def list_ids_of_guid(self, request: Request) -> Response:
        found = {(context_of(each.subject), each.id) for each in self._by_guid(request)}
        return answer(request, [{"context": context, "id": number} for context, number in sorted(found)])

    def _by_guid(self, request: Request) -> list[SchemaVersion]:
        guid = request.params["guid"]
        try:
            md5 = uuid.UUID(guid).bytes
        except ValueError:
            raise errors.schema_not_found(guid) from None
        found = []
        for context, schema_id in self.state.guids.get(md5, ()):
            found += [
                each
                for each in self.state.places_of(context, schema_id).values()
                if each.md5 == md5 and self.rights.may_read(request, each.subject)
            ]
        if not found:
            raise errors.schema_not_found(guid)
        return sorted(found, key=lambda each: (each.deleted, each.subject, each.version))

    # All of them

    def list_types(self, request: Request) -> Response:
        return answer(request, list(TYPES))

    def list_schemas(self, request: Request) -> Response:
        prefix = request.query.get("subjectPrefix", ANY_CONTEXT)
        if "context" in request.params and prefix == ANY_CONTEXT:
            prefix = f":{context_of_path(request)}:"
        deleted, latest_only = flag(request, "deleted"), flag(request, "latestOnly")
        rule_type = request.query.get("ruleType", "")
        found: list[SchemaVersion] = []
        for subject in self.state.subject_names(deleted=deleted):
            if has_prefix(subject, prefix) and self.rights.may_read(request, subject):
                versions = list(self.state.versions(subject, deleted=deleted))
                found += versions[-1:] if latest_only else versions
        if rule_type:
            found = [each for each in found if _has_rule(each, rule_type)]
        chosen: list[SchemaVersion] = page(request, found)
        return answer(request, [version_json(each, extended=is_extended(request)) for each in chosen])


def _has_rule(version: SchemaVersion, rule_type: str) -> bool:
    return any(rule.get("type") == rule_type for rules in (version.rule_set or {}).values() for rule in rules)
