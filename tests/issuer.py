"""A minimal token issuer with real signatures: keys at /keys, tokens for client credentials at /token."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER = "https://issuer.example"
AUDIENCE = "kafka"
_MISSING: Any = object()


class Issuer:
    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        self.keys = {
            "keys": [
                {**json.loads(RSAAlgorithm.to_jwk(self.rsa.public_key())), "kid": "rsa-1", "use": "sig"},
                {**json.loads(ECAlgorithm.to_jwk(self.ec.public_key())), "kid": "ec-1", "alg": "ES256"},
            ]
        }
        self.clients = {"app": "s3cret"}
        self.works = True
        self.granted: list[str] = []
        self.asked_for_keys = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked_for_keys += 1
                if self.path.startswith("/moved"):
                    self.send_response(302)
                    self.send_header("Location", issuer.jwks_url)
                    self.end_headers()
                elif self.path == "/keys" and issuer.works:
                    self._answer(200, issuer.keys)
                else:
                    self._answer(503, {})

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                given = self.headers.get("Authorization", "").removeprefix("Basic ")
                name, _, secret = base64.b64decode(given).decode().partition(":")
                if issuer.clients.get(name) != secret or form.get("grant_type") != ["client_credentials"]:
                    self._answer(401, {"error": "invalid_client"})
                    return
                token = issuer.token(name, scope=" ".join(form.get("scope", [])) or None)
                issuer.granted.append(name)
                self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": 300})

            def _answer(self, status: int, document: object) -> None:
                data = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self._server.server_port}"
        self.jwks_url = f"{self.url}/keys"
        self.token_url = f"{self.url}/token"

    def token(
        self, sub: str = "ann", *, alg: str = "RS256", kid: Any = _MISSING, key: Any = None, seconds: float = 300,
        **claims: Any,
    ) -> str:  # fmt: skip
        """Return a valid token, except for the given claims; None omits a claim."""
        now = time.time()
        every = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": sub,
            "iat": int(now + min(seconds, 0)),  # never issued after its own expiry
            "exp": int(now + seconds),
        } | claims
        if kid is _MISSING:
            kid = "ec-1" if alg.startswith("ES") else "rsa-1"
        key = key or (self.ec if alg.startswith("ES") else self.rsa)
        payload = {name: value for name, value in every.items() if value is not None}
        return jwt.encode(payload, key, algorithm=alg, headers=None if kid is None else {"kid": kid})

    def __enter__(self) -> Self:
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
