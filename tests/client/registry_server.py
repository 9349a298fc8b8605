"""An in-memory schema registry without checks, for tests of its clients."""

from __future__ import annotations

import base64
import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class RegistryServer:
    def __init__(self, login: str = "", prefix: str = "") -> None:
        self.requests: list[str] = []
        self.connections = 0
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}
        self._login = login
        self._prefix = prefix
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> RegistryServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{self._prefix}"

    def guid(self, number: int) -> str:
        return str(uuid.UUID(int=number))

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        parts = [unquote(each) for each in path.removeprefix(self._prefix).strip("/").split("/")]
        match method, parts:
            case "GET", ["subjects"]:
                return 200, sorted(self._subjects)
            case "GET", ["schemas", "ids", number]:
                return self._by_id(int(number))
            case "GET", ["schemas", "guids", guid]:
                return self._by_id(uuid.UUID(guid).int)
            case "POST", ["subjects", subject, "versions"]:
                number = self._number(body)
                versions = self._subjects.setdefault(subject, [])
                if number not in versions:
                    versions.append(number)
                return 200, {"id": number}
            case _, ["subjects", subject, *_] if subject not in self._subjects:
                return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            case "POST", ["subjects", subject]:
                number = self._number(body)
                if number not in self._subjects[subject]:
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                return self._version(subject, self._subjects[subject].index(number) + 1)
            case "GET", ["subjects", subject, "versions"]:
                return 200, list(range(1, len(self._subjects[subject]) + 1))
            case "GET", ["subjects", subject, "versions", version]:
                count = len(self._subjects[subject])
                return self._version(subject, count if version == "latest" else int(version))
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _number(self, body: dict[str, Any]) -> int:
        if body not in self._schemas:
            self._schemas.append(body)
        return self._schemas.index(body) + 1

    def _by_id(self, number: int) -> tuple[int, Any]:
        if not 0 < number <= len(self._schemas):
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        return 200, self._schemas[number - 1] | {"guid": self.guid(number)}

    def _version(self, subject: str, version: int) -> tuple[int, Any]:
        if not 0 < version <= len(self._subjects[subject]):
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        number = self._subjects[subject][version - 1]
        return 200, self._by_id(number)[1] | {"subject": subject, "version": version, "id": number}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                registry.connections += 1
                super().setup()

            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def _answer(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
                path = urlsplit(self.path).path
                registry.requests.append(f"{self.command} {path}")
                login = "Basic " + base64.b64encode(registry._login.encode()).decode()
                if registry._login and self.headers.get("Authorization") != login:
                    status, answer = 401, {"error_code": 401, "message": "Unauthorized"}
                else:
                    status, answer = registry.answer(self.command, path, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler
