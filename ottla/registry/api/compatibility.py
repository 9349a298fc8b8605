"""`/compatibility`: check whether a schema could be registered, without registering it."""

from __future__ import annotations

from ottla.http import Request, Response
from ottla.registry import errors
from ottla.registry.api.requests import answer, flag, read_given, read_object, subject_of, version_of
from ottla.registry.api.resource import Resource
from ottla.registry.errors import RegistryError
from ottla.registry.model import compatibility
from ottla.registry.model.contracts import Json
from ottla.registry.model.parsing import parse
from ottla.registry.model.records import SchemaVersion
from ottla.registry.model.registration import Given
from ottla.registry.model.scopes import effective_config


class Compatibility(Resource):
    async def with_version(self, request: Request) -> Response:
        given = read_given(read_object(await request.body()))
        subject, wanted = subject_of(request, self.state), version_of(request)
        found = self.state.version(subject, wanted)
        if found is None and wanted != -1:
            # Confluent's registry answers the same for an unknown subject.
            raise errors.version_not_found(wanted)
        return self._check(request, subject, given, [] if found is None else [found])

    async def with_all(self, request: Request) -> Response:
        """Check like a registration: against the latest version or all versions."""
        given = read_given(read_object(await request.body()))
        subject = subject_of(request, self.state)
        return self._check(request, subject, given, list(self.state.versions(subject)))

    def _check(self, request: Request, subject: str, given: Given, versions: list[SchemaVersion]) -> Response:
        self.rights.check_references(request, subject, given.references)
        config = effective_config(self.state, subject, self.node.defaults)
        verbose = flag(request, "verbose")
        try:
            parsed = parse(self.state, subject, given.schema_type, given.schema, given.references)
            messages = compatibility.check(self.state, config, parsed, given.metadata, versions)
        except RegistryError as error:
            if not verbose:
                raise
            messages = [error.message]
        verdict: Json = {"is_compatible": not messages}
        if verbose:
            verdict["messages"] = messages
        return answer(request, verdict)
