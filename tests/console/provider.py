"""An OpenID provider with real signatures. It consents immediately, and checks PKCE, redirect and client secret."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.issuer import Issuer

CLIENT, SECRET = "console", "the-secret-of-the-client"


class Provider:
    def __init__(self) -> None:
        self._issuer = Issuer()
        self.claims: dict[str, Any] = {"preferred_username": "olga", "roles": ["operator"]}
        self.refuses = False
        self.wrong: dict[str, Any] = {}  # claims that make a token invalid
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/.well-known/openid-configuration":
                    self._answer(200, provider.document)
                elif parts.path == "/keys":
                    self._answer(200, provider._issuer.keys)
                elif parts.path == "/authorize":
                    query = {name: each[0] for name, each in parse_qs(parts.query).items()}
                    self.send_response(302)
                    self.send_header("Location", provider.consented(query))
                    self.end_headers()
                else:
                    self._answer(404, {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: each[0] for name, each in parse_qs(body).items()}
                login = base64.b64decode(
                    self.headers.get("Authorization", "").removeprefix("Basic ")
                ).decode()
                self._answer(*provider.token(form, login))

            def _answer(self, status: int, document: object) -> None:
                data = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.document = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
        }

    def consented(self, query: dict[str, str]) -> str:
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT)
        assert query["code_challenge_method"] == "S256"
        if self.refuses:
            answer = {"error": "access_denied", "state": query["state"]}
        else:
            code = secrets.token_urlsafe()
            self._codes[code] = query
            answer = {"code": code, "state": query["state"]}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def token(self, form: dict[str, str], login: str) -> tuple[int, dict[str, Any]]:
        asked = self._codes.pop(form.get("code", ""), None)
        challenge = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        expected = base64.urlsafe_b64encode(challenge).decode().rstrip("=")
        if login != f"{CLIENT}:{SECRET}" or asked is None or asked["code_challenge"] != expected:
            return 400, {"error": "invalid_grant"}
        if form["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        claims = {"iss": self.url, "aud": CLIENT, "nonce": asked["nonce"], **self.claims, **self.wrong}
        return 200, {"id_token": self._issuer.token("sub-1", **claims), "token_type": "Bearer"}

    def __enter__(self) -> Self:
        serve = {"poll_interval": 0.05}
        threading.Thread(target=self._server.serve_forever, kwargs=serve, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._issuer._server.server_close()
