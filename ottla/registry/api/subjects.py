"""`/subjects`"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from ottla.http import Request, Response
from ottla.registry import errors
from ottla.registry.api.resource import (
    Resource,
    answer,
    context_of_path,
    flag,
    is_extended,
    page,
    read_given,
    read_integer,
    read_object,
    read_tags,
    subject_of,
    version_of,
    with_references,
)
from ottla.registry.errors import RegistryError
from ottla.registry.model import registration
from ottla.registry.model import registration as deletion
from ottla.registry.model.contracts import Json, found_json, read_metadata, read_rule_set, with_tags
from ottla.registry.model.parsing import parse
from ottla.registry.model.records import SchemaVersion, Write
from ottla.registry.model.registration import Given
from ottla.registry.model.state import State, registered_json, version_json
from ottla.registry.model.subjects import ANY_CONTEXT, context_prefix, parse_subject

#: Larger schemas are first parsed in a thread, to keep the event loop responsive.
_LARGE = 64 * 1024
#: Comparing with this many versions counts as slow.
_MANY_VERSIONS = 20


class Subjects(Resource):
    def list_subjects(self, request: Request) -> Response:
        prefix = request.query.get("subjectPrefix", ANY_CONTEXT)
        if "context" in request.params:
            prefix = context_prefix(context_of_path(request)) + parse_subject(prefix).name.removeprefix(
                ANY_CONTEXT
            )
        names = self.state.subject_names(
            deleted=flag(request, "deleted"), deleted_only=flag(request, "deletedOnly")
        )
        return answer(request, page(request, [each for each in names if has_prefix(each, prefix)]))

    def list_versions(self, request: Request) -> Response:
        subject = subject_of(request, self.state)
        deleted, only = flag(request, "deleted"), flag(request, "deletedOnly")
        every = list(self.state.versions(subject, deleted=deleted or only))
        if not every:
            raise errors.subject_not_found(subject)
        versions = [each.version for each in every if each.deleted or not only]
        return answer(request, page(request, versions))

    def get_version(self, request: Request) -> Response:
        version = self._find(request)
        return answer(request, self._json(request, version))

    def get_schema(self, request: Request) -> Response:
        version = self._find(request)
        text = self.formatted(request, version)
        return Response(200, (version.schema if text is None else text).encode(), request.produces)

    def referenced_by(self, request: Request) -> Response:
        version = self._find(request, deleted=True)
        ids = {
            each.id
            for each in self.state.referring_to(version.subject, version.version)
            if self.rights.may_read(request, each.subject)
        }
        return answer(request, page(request, sorted(ids)))

    def get_by_metadata(self, request: Request) -> Response:
        """Return the latest version whose metadata has these properties: `?key=owner&value=ann`, repeated."""
        subject = subject_of(request, self.state)
        given = request.query_values()
        keys = [value for name, value in given if name == "key"]
        wanted = dict(zip(keys, (value for name, value in given if name == "value"), strict=False))
        every = list(self.state.versions(subject, deleted=flag(request, "deleted")))
        if not every:
            raise errors.subject_not_found(subject)
        found = [
            each for each in every if wanted.items() <= (each.metadata or {}).get("properties", {}).items()
        ]
        if not found:
            raise errors.schema_not_found()
        return answer(request, self._json(request, found[-1]))

    def _find(self, request: Request, *, deleted: bool = False) -> SchemaVersion:
        subject, wanted = subject_of(request, self.state), version_of(request)
        deleted = deleted or flag(request, "deleted")
        found = self.state.version(subject, wanted, deleted=deleted)
        if found is None:
            if next(self.state.versions(subject, deleted=deleted), None) is None:
                raise errors.subject_not_found(subject)
            raise errors.version_not_found(wanted)
        return found

    def _json(self, request: Request, version: SchemaVersion) -> Json:
        text = self.formatted(request, version)
        found = version_json(with_references(request, version), text, extended=is_extended(request))
        return found | tags_of(request, version)

    # Lookup and registration

    async def look_up(self, request: Request) -> Response:
        body = await request.body()
        fields = read_object(body)
        given = read_given(fields)
        subject = subject_of(request, self.state)
        self.rights.check_references(request, subject, given.references)
        await self._parse_large(subject, given)
        found = registration.lookup(
            self.state,
            subject,
            given,
            self.node.defaults,
            normalize=flag(request, "normalize"),
            deleted=flag(request, "deleted"),
        )
        return answer(request, self._json(request, found))

    async def register(self, request: Request) -> Response:
        body = await request.body()
        fields = read_object(body)
        given = read_given(fields)
        subject = subject_of(request, self.state)
        self.rights.check_references(request, subject, given.references)
        normalize = flag(request, "normalize")
        added, removed = read_tags(fields, "schemaTagsToAdd"), read_tags(fields, "schemaTagsToRemove")
        if added or removed:
            # Validate the text before searching for it.
            parse(self.state, subject, given.schema_type, given.schema, given.references)
            given = replace(given, schema=with_tags(given.schema_type, given.schema, added, removed))

        # Existing schemas need no leader: producers send this request at each start.
        known = self._known(subject, given)
        if known is not None and not normalize:
            return answer(request, registered_json(known, extended=is_extended(request)))

        def decide(state: State) -> tuple[SchemaVersion, Sequence[Write]]:
            made = registration.register(state, subject, given, self.node.defaults, normalize=normalize)
            return made.version, made.writes

        takes_long = len(body) > _LARGE or len(self.state.subjects.get(subject, ())) > _MANY_VERSIONS
        if not takes_long and self.node.is_leader:
            # Parse while other writes run; the actual command reports any error.
            with suppress(RegistryError):
                parse(self.state, subject, given.schema_type, given.schema, given.references)
        return await self.write(
            request,
            decide,
            lambda made: self._registered(request, made, given),
            body,
            takes_long=takes_long,
        )

    def _known(self, subject: str, given: Given) -> SchemaVersion | None:
        """Return the latest version if it has exactly the same text."""
        latest = self.state.latest(subject)
        is_same = (
            latest is not None
            and given.id < 0
            and latest.schema == given.schema
            and latest.schema_type == given.schema_type
            and latest.references == given.references
            and given.metadata in (None, latest.metadata)
            and given.rule_set in (None, latest.rule_set)
            and not self.state.configs
            and not self.state.modes
            and self.node.defaults.mode == "READWRITE"
        )
        return latest if is_same else None

    async def _parse_large(self, subject: str, given: Given) -> None:
        if len(given.schema) > _LARGE:
            await asyncio.to_thread(
                parse, self.state, subject, given.schema_type, given.schema, given.references
            )

    def _registered(self, request: Request, made: SchemaVersion, given: Given | None) -> Response:
        stored = self.state.version(made.subject, made.version, deleted=True)
        if stored is None or stored.md5 != made.md5:
            raise errors.store_failed(
                "The schema was not registered: another node has written at the same time"
            )
        is_as_given = given is not None and (given.metadata, given.rule_set) == (
            stored.metadata,
            stored.rule_set,
        )
        return answer(
            request,
            registered_json(stored, extended=is_extended(request), with_content=not is_as_given),
        )

    async def tag(self, request: Request) -> Response:
        """Create a version with other tags, metadata or rules."""
        body = await request.body()
        fields = read_object(body)
        subject, wanted = subject_of(request, self.state), version_of(request)
        metadata, rules = read_metadata(fields.get("metadata")), read_rule_set(fields.get("ruleSet"))
        added, removed = read_tags(fields, "tagsToAdd"), read_tags(fields, "tagsToRemove")
        number = read_integer(fields, "newVersion", 0)

        def decide(state: State) -> tuple[SchemaVersion, Sequence[Write]]:
            base = state.version(subject, wanted)
            if base is None:
                raise errors.version_not_found("latest" if wanted == -1 else wanted)
            given = Given(
                with_tags(base.schema_type, base.schema, added, removed),
                base.schema_type,
                base.references,
                base.metadata if metadata is None else metadata,
                base.rule_set if rules is None else rules,
                version=number,
            )
            made = registration.register(state, subject, given, self.node.defaults)
            return made.version, made.writes

        return await self.write(request, decide, lambda made: self._registered(request, made, None), body)

    # Deletion

    async def delete_version(self, request: Request) -> Response:
        subject, wanted = subject_of(request, self.state, resolve=False), version_of(request)
        permanent = flag(request, "permanent")
        return await self.write(
            request,
            lambda state: deletion.delete_version(
                state, subject, wanted, self.node.defaults, permanent=permanent
            ),
            lambda version: answer(request, version),
        )

    async def delete_subject(self, request: Request) -> Response:
        subject = subject_of(request, self.state, resolve=False)
        permanent = flag(request, "permanent")
        return await self.write(
            request,
            lambda state: deletion.delete_subject(state, subject, self.node.defaults, permanent=permanent),
            lambda versions: answer(request, versions),
        )


def tags_of(request: Request, version: SchemaVersion) -> Json:
    """Return the tags requested by `findTags`."""
    wanted = request.query.get("findTags", "")
    return {"schemaTags": found_json(version.schema_type, version.schema, wanted)} if wanted else {}


def has_prefix(subject: str, prefix: str) -> bool:
    """`:*:` matches every context; a prefix without a context applies to the default context."""
    if prefix.startswith(ANY_CONTEXT):
        return parse_subject(subject).name.startswith(prefix.removeprefix(ANY_CONTEXT))
    wanted, held = parse_subject(prefix), parse_subject(subject)
    return held.context == wanted.context and held.name.startswith(wanted.name)
