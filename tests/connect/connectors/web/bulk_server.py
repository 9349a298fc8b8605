"""The part of Elasticsearch's API that the sink uses: indices, mappings, `_bulk` with versions."""

from __future__ import annotations

import json
from typing import Any

from .http_server import Answer, Request


class BulkServer:
    def __init__(self) -> None:
        self.indices: dict[str, dict[str, Any]] = {}
        self.mappings: dict[str, Any] = {}
        self._versions: dict[tuple[str, str], int] = {}
        #: Number of documents to answer with 429.
        self.busy = 0
        self.login: str | None = None

    def __call__(self, request: Request) -> Answer:
        if self.login is not None and request.headers.get("authorization") != self.login:
            return Answer(401, b'{"error":"who are you"}')
        name = request.path.strip("/")
        if name == "":
            return _json({"version": {"number": "2.0"}})
        if name == "_bulk":
            assert request.headers["content-type"] == "application/x-ndjson"
            return _json({"items": self._bulk(request.body.splitlines())})
        if request.method == "HEAD":
            return Answer(200 if name in self.indices else 404)
        self.indices[name] = {}
        self.mappings[name] = json.loads(request.body).get("mappings", {})
        return _json({"acknowledged": True})

    def _bulk(self, lines: list[bytes]) -> list[dict[str, Any]]:
        items, rest = [], iter(lines)
        for line in rest:
            [(operation, about)] = json.loads(line).items()
            source = None if operation == "delete" else json.loads(next(rest))
            items.append({operation: self._one(operation, about, source)})
        return items

    def _one(self, operation: str, about: dict[str, Any], source: Any) -> dict[str, Any]:
        index, id = about["_index"], about["_id"]
        found = {"_index": index, "_id": id}
        if self.busy:
            self.busy -= 1
            return {**found, "status": 429, "error": {"reason": "busy"}}
        if about.get("version_type") == "external":
            if about["version"] <= self._versions.get((index, id), -1):
                return {**found, "status": 409, "error": {"reason": "version conflict"}}
            self._versions[index, id] = about["version"]
        documents = self.indices[index]
        if operation == "delete":
            return {**found, "status": 200 if documents.pop(id, None) else 404}
        document = {**documents.get(id, {}), **source["doc"]} if operation == "update" else source
        for name, each in self.mappings[index].get("properties", {}).items():
            if each.get("type") == "long" and isinstance(document.get(name), str):
                return {**found, "status": 400, "error": {"reason": f"failed to parse field [{name}]"}}
        documents[id] = document
        return {**found, "status": 201}


def _json(content: Any) -> Answer:
    return Answer(200, json.dumps(content).encode(), {"Content-Type": "application/json"})
