"""GSSAPI (RFC 4752): Kerberos tickets without a security layer; TLS provides encryption.

    client: token ──▶ … ◀── token: server          until both contexts are established
    server: wrapped(layers it offers)  ──▶  client: wrapped(layer it takes, requested identity)

The requested identity is ignored, as in Kafka: the name in the ticket counts. The package `gssapi` is an extra.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from ottla.security.sasl.plain import AuthenticationFailed, ClientExchange, Login

if TYPE_CHECKING:
    from types import ModuleType

MECHANISM = "GSSAPI"
MISSING = "Logins with Kerberos need the package gssapi: install it with pip install 'ottla[kerberos]'"

_NO_LAYER = 1
_OFFER = bytes([_NO_LAYER, 0, 0, 0])


class NotInstalled(Exception):
    """The package is missing. The message names it."""


def library() -> ModuleType:
    """Return the package. Raises NotInstalled."""
    try:
        import gssapi
    except ImportError:
        raise NotInstalled(MISSING) from None
    except OSError as error:  # a system library is missing
        raise NotInstalled(f"{MISSING} ({error})") from None
    module: ModuleType = gssapi
    return module


def acceptor_credentials(principal: str | None, service: str, keytab: str | None) -> Any:
    """Return the credentials that a server accepts tickets with. Raises
    AuthenticationFailed if the keytab lacks them.
    """
    gss = library()
    name = (
        gss.Name(principal, gss.NameType.kerberos_principal)
        if principal
        else gss.Name(service, gss.NameType.hostbased_service)
    )
    store = {"keytab": keytab} if keytab else None
    try:
        found = gss.Credentials(usage="accept", name=name, store=store)
        str(found.name)
    except gss.exceptions.GSSError as error:
        raise AuthenticationFailed(_reason(error)) from None
    return found


# Maps a ticket's principal to a user name. Raises AuthenticationFailed if there is none.
ShortName = Callable[[str], str]


class _Step(Enum):
    CONTEXT = 1
    OFFER = 2
    CHOICE = 3


class GssapiServer:
    def __init__(self, credentials: Any, short_name: ShortName) -> None:
        self.login: Login | None = None
        self._gss = library()
        self._context = self._gss.SecurityContext(creds=credentials, usage="accept")
        self._short_name = short_name
        self._step = _Step.CONTEXT

    def answer(self, message: bytes) -> bytes:
        try:
            if self._step is _Step.CONTEXT:
                return self._accept(message)
            if self._step is _Step.OFFER:
                return self._offer(message)
            return self._choice(message)
        except self._gss.exceptions.GSSError as error:
            raise AuthenticationFailed(_reason(error)) from None

    def _accept(self, message: bytes) -> bytes:
        if not message:
            raise AuthenticationFailed("The client sends an empty token.")
        token = self._context.step(message)
        if not self._context.complete:
            return bytes(token or b"")
        self._step = _Step.OFFER
        return bytes(token) if token else self._offer(b"")

    def _offer(self, message: bytes) -> bytes:
        if message:
            raise AuthenticationFailed("The client sends a token although the context is established.")
        self._step = _Step.CHOICE
        return bytes(self._context.wrap(_OFFER, False).message)

    def _choice(self, message: bytes) -> bytes:
        chosen = bytes(self._context.unwrap(message).message)
        if len(chosen) < 4 or chosen[0] != _NO_LAYER:
            raise AuthenticationFailed("The client chooses a security layer that was not offered.")
        self.login = Login(self._short_name(str(self._context.initiator_name)))
        return b""


def log_in(
    service: str, host: str, principal: str | None = None, keytab: str | None = None
) -> ClientExchange:
    try:
        gss = library()
    except NotInstalled as missing:
        raise AuthenticationFailed(str(missing)) from None
    try:
        credentials = None
        if keytab:
            name = gss.Name(principal, gss.NameType.kerberos_principal) if principal else None
            # A cache holds the tickets of one principal only.
            cache = hashlib.sha256(f"{principal}\0{keytab}".encode()).hexdigest()[:16]
            store = {"client_keytab": keytab, "ccache": f"MEMORY:ottla-{cache}"}
            credentials = gss.Credentials(usage="initiate", name=name, store=store)
        target = gss.Name(f"{service}@{host}", gss.NameType.hostbased_service)
        context = gss.SecurityContext(name=target, creds=credentials, usage="initiate")
        answer = yield bytes(context.step() or b"")
        while not context.complete:
            answer = yield bytes(context.step(answer) or b"")
        offered = bytes(context.unwrap(answer).message)
        if len(offered) < 4 or not offered[0] & _NO_LAYER:
            raise AuthenticationFailed("the broker asks for a security layer")
        yield bytes(context.wrap(_OFFER, False).message)
    except gss.exceptions.GSSError as error:
        raise AuthenticationFailed(_reason(error).rstrip(".")) from None


def _reason(error: Exception) -> str:
    """Return the library's error in one line, without its internals."""
    describe = getattr(error, "gen_message", None)
    text = str(describe() if describe is not None else error)
    return " ".join(text.split())
