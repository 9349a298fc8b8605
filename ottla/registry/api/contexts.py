"""`/contexts`, `/v1/metadata` and the root."""

from __future__ import annotations

from collections.abc import Sequence

from ottla import __version__
from ottla.http import Request, Response
from ottla.registry.api.requests import answer, context_of_path, page
from ottla.registry.api.resource import Resource
from ottla.registry.model import administration
from ottla.registry.model.records import Write
from ottla.registry.model.state import State


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
