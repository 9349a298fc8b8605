"""The parts of HashiCorp Vault's transit API that data keys need, over real HTTP. The tests have no Vault.

Follows Vault's documentation of `/v1/transit/datakey/plaintext/:name`, `/decrypt/:name` and `/rewrap/:name`: request
bodies, the headers for the token and the namespace, responses, and the status codes of refusals.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

TOKEN = "hvs.test-token"


class Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Key:
    def __init__(self) -> None:
        self.versions = {1: os.urandom(32)}
        self.min_decryption_version = 1

    def rotate(self) -> None:
        self.versions[max(self.versions) + 1] = os.urandom(32)

    def encrypt(self, plain: bytes) -> str:
        version = max(self.versions)
        nonce = os.urandom(12)
        sealed = nonce + AESGCM(self.versions[version]).encrypt(nonce, plain, None)
        return f"vault:v{version}:{base64.b64encode(sealed).decode()}"

    def decrypt(self, text: str) -> bytes:
        try:
            prefix, version, sealed = text.split(":")
            data = base64.b64decode(sealed, validate=True)
            key = self.versions[int(version.removeprefix("v"))]
            if prefix != "vault":
                raise ValueError
        except (ValueError, KeyError):
            raise Refused(400, "invalid ciphertext: no prefix") from None
        if int(version[1:]) < self.min_decryption_version:
            raise Refused(400, "ciphertext or signature version is disallowed by policy (too old)")
        try:
            return AESGCM(key).decrypt(data[:12], data[12:], None)
        except (InvalidTag, ValueError):
            raise Refused(400, "cipher: message authentication failed") from None


class VaultServer:
    """`context` enables TLS. `failures` lists statuses to return first, one per request."""

    def __init__(self, context: ssl.SSLContext | None = None, mount: str = "transit", port: int = 0) -> None:
        self.keys = {"orders": Key()}
        self.token = TOKEN
        self.mount = mount
        self.failures: list[int] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        vault = self

        class Handler(_Handler):
            server_vault = vault

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.reference = f"vault:http{'s' if context else ''}://localhost:{self.port}/{mount}#orders"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        words = path.removeprefix(f"/v1/{self.mount}/").split("/")
        key = self.keys.get(words[-1])
        match words:
            case ["datakey", "plaintext", _]:
                if key is None:
                    raise Refused(404, "")
                plain = os.urandom(body["bits"] // 8)
                return {"plaintext": base64.b64encode(plain).decode(), "ciphertext": key.encrypt(plain)}
            case ["decrypt", _]:
                if key is None:
                    raise Refused(400, "encryption key not found")
                return {"plaintext": base64.b64encode(key.decrypt(body["ciphertext"])).decode()}
            case ["rewrap", _]:
                if key is None:
                    raise Refused(400, "encryption key not found")
                return {"ciphertext": key.encrypt(key.decrypt(body["ciphertext"]))}
        raise Refused(404, f"no handler for route '{path}'")


class _Handler(BaseHTTPRequestHandler):
    server_vault: ClassVar[VaultServer]

    def do_POST(self) -> None:
        vault = self.server_vault
        body = self.rfile.read(int(self.headers["Content-Length"]))
        vault.requests.append((self.path, dict(self.headers)))
        try:
            if vault.failures:
                status = vault.failures.pop(0)
                raise Refused(status, "Vault is sealed" if status == 503 else "try again")
            if self.headers["X-Vault-Token"] != vault.token:
                raise Refused(403, "permission denied")
            self._send(200, {"data": vault.answer(self.path, json.loads(body))})
        except Refused as refused:
            self._send(refused.status, {"errors": [refused.reason] if refused.reason else []})

    def _send(self, status: int, document: dict[str, Any]) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass
