"""Format of v3 responses: resources with a kind, their own URL and related URLs."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from ottla.http import Request, Response, json_response


class Links:
    """URLs of resources, as reachable by the caller."""

    def __init__(self, request: Request, cluster_id: str, scheme: str) -> None:
        scheme = request.headers.get("x-forwarded-proto", scheme)
        self.base = f"{scheme}://{request.headers.get('host', 'localhost')}"
        self.cluster_id = cluster_id
        self._cluster = f"{self.base}/v3/clusters/{quote(cluster_id, safe='')}"

    def url(self, *parts: object) -> str:
        return "/".join([self._cluster, *(quote(str(part), safe=":-._~") for part in parts)])

    def related(self, *parts: object) -> dict[str, str]:
        return {"related": self.url(*parts)}

    def resource(self, kind: str, path: tuple[object, ...], crn: str, /, **fields: Any) -> dict[str, Any]:
        return {
            "kind": kind,
            "metadata": {"self": self.url(*path), "resource_name": f"crn:///kafka={self.cluster_id}{crn}"},
            "cluster_id": self.cluster_id,
            **fields,
        }

    def listed(self, kind: str, path: tuple[object, ...], data: list[dict[str, Any]]) -> Response:
        return json_response(
            {"kind": kind, "metadata": {"self": self.url(*path), "next": None}, "data": data}
        )
