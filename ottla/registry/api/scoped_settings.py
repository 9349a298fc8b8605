"""`/config`, `/mode`, `/contexts` and `/compatibility`"""

from __future__ import annotations

from collections.abc import Sequence

from ottla import __version__
from ottla.http import Request, Response
from ottla.registry import errors
from ottla.registry.api.resource import (
    Resource,
    answer,
    context_of_path,
    flag,
    page,
    read_given,
    read_object,
    scope_of,
    subject_of,
    version_of,
)
from ottla.registry.errors import RegistryError
from ottla.registry.model import administration, compatibility
from ottla.registry.model.administration import FIELDS
from ottla.registry.model.contracts import Json
from ottla.registry.model.parsing import parse
from ottla.registry.model.records import SchemaVersion, Write
from ottla.registry.model.registration import Given
from ottla.registry.model.scopes import effective_config, effective_mode, scope_key
from ottla.registry.model.state import State

# `/config` and `/mode`: globally, per context, and per subject.


class ScopedSettings(Resource):
    def get_config(self, request: Request) -> Response:
        scope = scope_of(request)
        key = scope_key(scope)
        if key is None or flag(request, "defaultToGlobal"):
            config = effective_config(self.state, scope, self.node.defaults)
        elif key in self.state.configs:
            config = self.state.configs[key]
        else:
            raise errors.no_subject_config(scope or "")
        return answer(request, _in_order(config))

    async def put_config(self, request: Request) -> Response:
        body = await request.body()
        fields = read_object(body)
        scope = scope_of(request)

        def decide(state: State) -> tuple[Json, Sequence[Write]]:
            writes = administration.set_config(state, scope, fields, self.node.defaults)
            return writes[0].value or {}, writes

        return await self.write(
            request, decide, lambda config: answer(request, _as_request(fields, config)), body
        )

    async def delete_config(self, request: Request) -> Response:
        scope = scope_of(request)
        return await self.write(
            request,
            lambda state: administration.delete_config(state, scope, self.node.defaults),
            lambda config: answer(request, _in_order(config)),
        )

    def get_mode(self, request: Request) -> Response:
        scope = scope_of(request)
        key = scope_key(scope)
        if key is None or flag(request, "defaultToGlobal"):
            mode = effective_mode(self.state, scope, self.node.defaults)
        elif key in self.state.modes:
            mode = self.state.modes[key]
        else:
            raise errors.no_subject_mode(scope or "")
        return answer(request, {"mode": mode})

    async def put_mode(self, request: Request) -> Response:
        body = await request.body()
        fields = read_object(body)
        scope, force = scope_of(request), flag(request, "force")

        def decide(state: State) -> tuple[Json, Sequence[Write]]:
            writes = administration.set_mode(state, scope, fields.get("mode"), force=force)
            return writes[0].value or {}, writes

        return await self.write(request, decide, lambda mode: answer(request, mode), body)

    async def delete_mode(self, request: Request) -> Response:
        scope, recursive = scope_of(request), flag(request, "recursive")
        return await self.write(
            request,
            lambda state: administration.delete_mode(state, scope, self.node.defaults, recursive=recursive),
            lambda mode: answer(request, {"mode": mode}),
        )


def _in_order(config: Json) -> Json:
    return {name: config[name] for name in FIELDS if config.get(name) is not None}


def _as_request(asked: Json, config: Json) -> Json:
    """Return the requested fields as now in force, with the names of the request."""
    answered = {}
    for name in FIELDS:
        asked_as = "compatibility" if name == "compatibilityLevel" else name
        if (asked_as in asked or name in asked) and config.get(name) is not None:
            answered[asked_as] = config[name]
    return answered


# `/contexts`, `/v1/metadata` and the root.


class Contexts(Resource):
    def list_contexts(self, request: Request) -> Response:
        prefix = request.query.get("contextPrefix", "")
        return answer(
            request, page(request, [each for each in self.state.context_names() if each.startswith(prefix)])
        )

    async def delete_context(self, request: Request) -> Response:
        context = context_of_path(request)

        def decide(state: State) -> tuple[None, Sequence[Write]]:
            return None, administration.delete_context(state, context)

        return await self.write(request, decide, lambda _: Response(204, b"", None))

    def root(self, request: Request) -> Response:
        return answer(request, {})

    def get_cluster_id(self, request: Request) -> Response:
        clusters = {
            "kafka-cluster": self.node.store.cluster_id,
            "schema-registry-cluster": self.node.settings.group,
        }
        return answer(request, {"scope": {"path": [], "clusters": clusters}, "id": ""})

    def get_version(self, request: Request) -> Response:
        return answer(request, {"version": __version__, "commitId": ""})

    def get_deployment(self, request: Request) -> Response:
        return answer(request, {"attributes": ["opensource"]})


# `/compatibility`: check whether a schema could be registered, without registering it.


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
