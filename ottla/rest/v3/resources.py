"""Format of v3 responses: resources with a kind, their own URL and related URLs."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from ottla.http import Request, Response, json_response
from ottla.rest.errors import bad_request


class Links:
    """URLs of resources, as reachable by the caller."""

    def __init__(self, request: Request, cluster_id: str, scheme: str) -> None:
        self._query = request.query
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
        return self.listed_at(kind, self.url(*path), data)

    def listed_at(self, kind: str, url: str, data: list[dict[str, Any]]) -> Response:
        """Return a list, or with `page_size` one page of it and the URL of the next one."""
        size, start = self._page("page_size", None), self._page("page_token", 0) or 0
        next_ = None
        if size and start + size < len(data):
            query = {**self._query, "page_size": size, "page_token": start + size}
            next_ = f"{url}?{urlencode(query)}"
        page = data[start : start + size] if size else data[start:]
        return json_response({"kind": kind, "metadata": {"self": url, "next": next_}, "data": page})

    def _page(self, name: str, default: int | None) -> int | None:
        text = self._query.get(name)
        if text is None:
            return default
        if not text.isdigit():
            raise bad_request(f"{name} must be a number, not {text}.")
        return int(text)
