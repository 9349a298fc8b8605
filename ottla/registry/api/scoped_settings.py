"""`/config` and `/mode`: globally, per context, and per subject."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.http import Request, Response
from ottla.registry import errors
from ottla.registry.api.requests import answer, flag, read_object, scope_of
from ottla.registry.api.resource import Resource
from ottla.registry.model import administration
from ottla.registry.model.administration import FIELDS
from ottla.registry.model.contracts import Json
from ottla.registry.model.records import Write
from ottla.registry.model.scopes import effective_config, effective_mode, scope_key
from ottla.registry.model.state import State


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
