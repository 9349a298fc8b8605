"""Keys in HashiCorp Vault: its transit engine wraps and unwraps data keys, and its keys never leave it."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ottla.security.encryption.envelope import KEY_BYTES
from ottla.security.encryption.key_provider import BadValue, KeysUnavailable, NewDataKey

_TRIES = 4
_FIRST_PAUSE = 0.25
_MOST_BYTES = 1 << 20
_MOST_REASON = 200
#: Busy, sealed or changing its leader: a retry may succeed.
_RETRIED = frozenset({412, 429, 472, 473, 500, 502, 503, 504})
_BAD_REQUEST, _FORBIDDEN, _NOT_FOUND = 400, 403, 404


class VaultAddress(NamedTuple):
    host: str
    port: int
    tls: bool = True
    #: Mount point of the transit engine.
    mount: str = "transit"

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"


class VaultTransit:
    """`names` are the permitted keys, the first one for new data keys.

    The token is in `token_file`, else in VAULT_TOKEN or ~/.vault-token, as for Vault's own command. It is reread for
    every request, so that it can be renewed. Certificates are checked, with VAULT_CACERT if `ca_file` is missing.
    """

    def __init__(
        self,
        address: VaultAddress,
        names: Sequence[str],
        *,
        token_file: str | None = None,
        ca_file: str | None = None,
        namespace: str | None = None,
        timeout: float = 5.0,
    ) -> None:
        self._address = address
        self._names = tuple(names)
        self._token_file = token_file
        self._ca_file = ca_file or os.environ.get("VAULT_CACERT")
        self._namespace = namespace or os.environ.get("VAULT_NAMESPACE")
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"VaultTransit({str(self._address)!r})"

    def new_data_key(self) -> NewDataKey:
        name = self._names[0]
        answer = self._post(f"datakey/plaintext/{name}", {"bits": 8 * KEY_BYTES}, name)
        if isinstance(answer, _Refusal):
            raise KeysUnavailable(f"{self._who} makes no data key with the key '{name}': {answer.reason}.")
        return NewDataKey(name, self._text(answer, "ciphertext").encode(), self._key(answer))

    def unwrap(self, key_name: str, wrapped: bytes) -> bytes:
        return self._key(self._transform("decrypt", key_name, wrapped))

    def rewrap(self, key_name: str, wrapped: bytes) -> bytes:
        return self._text(self._transform("rewrap", key_name, wrapped), "ciphertext").encode()

    def _transform(self, verb: str, name: str, wrapped: bytes) -> dict[str, Any]:
        # The name comes from a record: without this check its writer could choose the key.
        if name not in self._names:
            raise BadValue(
                f"The value is encrypted with the key '{name}', which is not one of those to be used."
            )
        answer = self._post(f"{verb}/{name}", {"ciphertext": wrapped.decode("latin-1")}, name)
        if isinstance(answer, _Refusal):
            raise BadValue(
                f"{self._who} does not {verb} the data key with the key '{name}': {answer.reason}."
            )
        return answer

    @property
    def _who(self) -> str:
        return f"Vault at {self._address}"

    def _text(self, answer: dict[str, Any], name: str) -> str:
        text = answer.get(name)
        if not isinstance(text, str):
            raise KeysUnavailable(f"{self._who} did not answer as its transit API does: no {name}.")
        return text

    def _key(self, answer: dict[str, Any]) -> bytes:
        text = self._text(answer, "plaintext")
        key = b""
        with suppress(ValueError):
            key = base64.b64decode(text, validate=True)
        if len(key) != KEY_BYTES:
            raise KeysUnavailable(f"{self._who} answered with an invalid key of {8 * KEY_BYTES} bits.")
        return key

    # -- HTTP -----------------------------------------------------------------------------------------------

    def _post(self, path: str, body: dict[str, Any], name: str) -> dict[str, Any] | _Refusal:
        """Return "data" of the response. Retries for a few seconds while that may help."""
        reason = ""
        what = "cannot be used"
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_FIRST_PAUSE * 2 ** (attempt - 1))
            try:
                status, document = self._request(path, body)
            except ssl.SSLCertVerificationError as error:
                raise KeysUnavailable(
                    f"{self._who} has a certificate that is not trusted: {error.verify_message}."
                ) from None
            except (OSError, http.client.HTTPException) as error:
                reason = (
                    (error.strerror if isinstance(error, OSError) else None)
                    or str(error)
                    or type(error).__name__
                )
                what = "cannot be reached"
                continue
            if status == 200:
                return document["data"] if isinstance(document.get("data"), dict) else {}
            reason, what = _reason(status, document), "cannot be used"
            if status in _RETRIED:
                continue
            if status in (_BAD_REQUEST, _NOT_FOUND):
                return _Refusal(reason)
            if status == _FORBIDDEN:
                raise KeysUnavailable(f"{self._who} does not let this token use the key '{name}': {reason}.")
            break
        raise KeysUnavailable(f"{self._who} {what}: {reason.rstrip('.')}.")

    def _request(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        # Not urllib, which would send the token to the target of a redirect.
        headers = {
            "X-Vault-Token": self._token(),
            "X-Vault-Request": "true",
            "Content-Type": "application/json",
        }
        if self._namespace:
            headers["X-Vault-Namespace"] = self._namespace
        connection = self._connection()
        try:
            connection.request("POST", f"/v1/{self._address.mount}/{path}", json.dumps(body), headers)
            response = connection.getresponse()
            data = response.read(_MOST_BYTES)
        finally:
            connection.close()
        document = None
        with suppress(ValueError):
            document = json.loads(data)
        return response.status, document if isinstance(document, dict) else {}

    def _connection(self) -> http.client.HTTPConnection:
        host, port, tls, _ = self._address
        if not tls:
            return http.client.HTTPConnection(host, port, timeout=self._timeout)
        try:
            context = ssl.create_default_context(cafile=self._ca_file)
        except (OSError, ssl.SSLError) as error:
            raise KeysUnavailable(
                f"The certificates in {self._ca_file} cannot be read: {error.strerror or error}."
            ) from None
        return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=context)

    def _token(self) -> str:
        token = os.environ.get("VAULT_TOKEN", "")
        file = Path(self._token_file) if self._token_file is not None else Path.home() / ".vault-token"
        if self._token_file is not None or (not token and file.exists()):
            try:
                token = file.read_text("ascii")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not text"
                raise KeysUnavailable(f"Cannot read Vault's token in {file}: {reason}.") from None
        token = token.strip()
        if not token:
            raise KeysUnavailable(
                "There is no token for Vault: set VAULT_TOKEN, or name a file with ?token-file=/path."
            )
        if not token.isascii() or not token.isprintable():
            raise KeysUnavailable("The token for Vault is not a line of ASCII.")
        return token


class _Refusal(NamedTuple):
    reason: str


def _reason(status: int, document: dict[str, Any]) -> str:
    errors = document.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], str):
        text = " ".join(errors[0].split())[:_MOST_REASON]
        return f"{text.rstrip('.')} (HTTP {status})"
    return f"HTTP {status}"
