"""SCRAM (RFC 5802 and 7677) without channel binding.

Both sides prove that they know the password without sending it. A server stores a `ScramCredential`, which suffices to
check a proof and to give its own, but not to log in.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.security.sasl.plain import AuthenticationFailed, ClientExchange, Login

# Mechanism → hash name.
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS = 4096
MAX_STORED_ITERATIONS = 16384
# Limit on the iterations a server may request: half a second of work instead of an hour.
MAX_CLIENT_ITERATIONS = 1_000_000

_SALT_BYTES = 24
_GS2_HEADER = "n,,"
_VALUE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[a-zA-Z]+=[^,]+)*"
_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>[^,]*))?,n=(?P<name>[^,]+),r=(?P<nonce>{_VALUE})(?P<extensions>{_EXTENSIONS})"
)
_FINAL = re.compile(
    rf"(?P<without_proof>c=(?P<binding>[^,]+),r=(?P<nonce>{_VALUE}){_EXTENSIONS}),p=(?P<proof>[^,]+)"
)
_CHALLENGE = re.compile(rf"r=(?P<nonce>{_VALUE}),s=(?P<salt>[^,]+),i=(?P<iterations>[0-9]+){_EXTENSIONS}")


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


class Shape(NamedTuple):
    """Everything that a challenge reveals about a credential, apart from the bytes of the salt."""

    salt_bytes: int
    iterations: int


# Returns the credential of a user or, if the second argument is true, of a delegation token.
Credentials = Callable[[str, bool], ScramCredential | None]
# Returns a credential for a nonexistent user or token.
StandIns = Callable[[str, bool], ScramCredential]
# Returns the login for a delegation token id.
TokenOwners = Callable[[str], Login | None]


def _no_tokens(_token_id: str) -> None:
    return None


def new_credential(mechanism: str, password: str, iterations: int = MIN_ITERATIONS) -> ScramCredential:
    return credential(mechanism, password, secrets.token_bytes(_SALT_BYTES), iterations)


def credential(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
    return from_salted_password(mechanism, salted, salt, iterations)


def from_salted_password(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Build the credential that administrators send instead of the password."""
    digest = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", digest)
    server_key = hmac.digest(salted, b"Server Key", digest)
    return ScramCredential(salt, hashlib.new(digest, client_key).digest(), server_key, iterations)


def format_credential(credential: ScramCredential) -> str:
    """Format as in Kafka's user settings."""
    salt, stored_key, server_key = (base64.b64encode(each).decode() for each in credential[:3])
    return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={credential.iterations}"


def shape_of(text: str) -> Shape | None:
    """Return the public part of a stored credential, or None if it is malformed."""
    fields = dict(part.strip().partition("=")[::2] for part in text.split(","))
    try:
        return Shape(len(base64.b64decode(fields["salt"])), int(fields["iterations"]))
    except (KeyError, ValueError):
        return None


def parse_credential(text: str) -> ScramCredential:
    """Raises ValueError without the text, because it is a secret."""
    fields = dict(part.strip().partition("=")[::2] for part in text.split(","))
    try:
        salt, stored_key, server_key = (
            base64.b64decode(fields.pop(name), validate=True) for name in ("salt", "stored_key", "server_key")
        )
        iterations = int(fields.pop("iterations"))
    except (KeyError, ValueError):
        raise ValueError("not a SCRAM credential") from None
    if fields:
        raise ValueError("not a SCRAM credential")
    return ScramCredential(salt, stored_key, server_key, iterations)


# -- server -------------------------------------------------------------------------------------------------


class ScramServer:
    """The server's side. It asks for a proof in any case, so that the challenge does not reveal existing names.

    An unknown user gets a credential from `stand_ins`, for which no valid proof exists.
    """

    def __init__(
        self,
        mechanism: str,
        credentials: Credentials,
        token_owners: TokenOwners = _no_tokens,
        *,
        stand_ins: StandIns,
    ) -> None:
        self.login: Login | None = None
        self._mechanism = mechanism
        self._digest = HASHES[mechanism]
        self._credentials = credentials
        self._token_owners = token_owners
        self._stand_ins = stand_ins
        self._asked: _Asked | None = None

    def answer(self, message: bytes) -> bytes:
        text = _decoded(message)
        return self._challenge(text) if self._asked is None else self._check(text, self._asked)

    def _challenge(self, message: str) -> bytes:
        first = _FIRST.fullmatch(message)
        if first is None:
            raise AuthenticationFailed("The first message of the client is not one of SCRAM.")
        name = _unescaped(first["name"])
        if first["authzid"] and _unescaped(first["authzid"]) != name:
            raise AuthenticationFailed("The client requests another identity than its own.")
        extensions = dict(part.split("=", 1) for part in first["extensions"].split(",") if part)
        is_token = extensions.get("tokenauth", "").lower() == "true"
        login = self._token_owners(name) if is_token else Login(name)
        known = self._credentials(name, is_token) if login is not None else None
        found = known or self._stand_ins(name, is_token)
        if found.iterations < MIN_ITERATIONS:
            raise AuthenticationFailed(f"The credential has fewer than {MIN_ITERATIONS} iterations.")
        nonce = first["nonce"] + secrets.token_urlsafe(24)
        challenge = f"r={nonce},s={base64.b64encode(found.salt).decode()},i={found.iterations}"
        gs2_header = message[: message.index(",", 2) + 1]
        self._asked = _Asked(
            login if known is not None else None,
            found,
            gs2_header,
            message[len(gs2_header) :],
            first["nonce"],
            nonce,
            challenge,
        )
        return challenge.encode()

    def _check(self, message: str, asked: _Asked) -> bytes:
        final = _FINAL.fullmatch(message)
        if final is None:
            raise AuthenticationFailed("The final message of the client is not one of SCRAM.")
        # librdkafka before 2.6.1 repeats its own part before the whole nonce, which Kafka accepts.
        repeated = final["nonce"].removeprefix(asked.client_nonce)
        if not any(hmac.compare_digest(each, asked.nonce) for each in (final["nonce"], repeated)):
            raise AuthenticationFailed("The client answered another challenge.")
        if _b64(final["binding"]) != asked.gs2_header.encode():
            raise AuthenticationFailed("The client contradicts its first message.")
        found = asked.credential
        signed = f"{asked.first_bare},{asked.challenge},{final['without_proof']}".encode()
        signature = hmac.digest(found.stored_key, signed, self._digest)
        proof = _b64(final["proof"])
        if len(proof) != len(signature):
            raise AuthenticationFailed("The proof of the client has the wrong length.")
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        is_right = hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), found.stored_key)
        if not is_right or asked.login is None:
            raise AuthenticationFailed("The user does not exist, or the password is wrong.")
        self.login = asked.login
        return b"v=" + base64.b64encode(hmac.digest(found.server_key, signed, self._digest))


class _Asked(NamedTuple):
    """State after the first half of an exchange."""

    login: Login | None  # None for an unknown name
    credential: ScramCredential
    gs2_header: str
    first_bare: str
    client_nonce: str
    nonce: str  # the client's part and ours
    challenge: str


def stand_in(mechanism: str, name: str, secret: bytes, shapes: Sequence[Shape]) -> ScramCredential:
    """Return a credential for a name that does not exist.

    The salt depends only on the name and the secret, which all brokers of a cluster share. The name also selects one of
    `shapes`, taken from real credentials: if all users have the same shape, an unknown user has it, too.
    """
    shape = Shape(_SALT_BYTES, MIN_ITERATIONS)
    if shapes:
        digest = hmac.digest(secret, f"shape:{mechanism}:{name}".encode(), "sha256")
        shape = shapes[int.from_bytes(digest[:8]) % len(shapes)]
    size = hashlib.new(HASHES[mechanism]).digest_size
    salt = derived_salt(mechanism, name, secret, shape.salt_bytes)
    return ScramCredential(salt, secrets.token_bytes(size), secrets.token_bytes(size), shape.iterations)


def derived_salt(mechanism: str, name: str, secret: bytes, size: int = _SALT_BYTES) -> bytes:
    return hashlib.shake_256(hmac.digest(secret, f"salt:{mechanism}:{name}".encode(), "sha256")).digest(size)


# -- client -------------------------------------------------------------------------------------------------


def log_in(mechanism: str, name: str, password: str, *, is_token: bool = False) -> ClientExchange:
    digest = HASHES[mechanism]
    nonce = secrets.token_urlsafe(24)
    first = f"n={_escaped(name)},r={nonce}" + (",tokenauth=true" if is_token else "")
    message = yield (_GS2_HEADER + first).encode()
    challenge = _CHALLENGE.fullmatch(_decoded(message))
    if challenge is None:
        raise AuthenticationFailed("the broker's challenge is not one of SCRAM")
    if not challenge["nonce"].startswith(nonce) or challenge["nonce"] == nonce:
        raise AuthenticationFailed("the broker answered with a nonce that is not ours")
    iterations = int(challenge["iterations"][:12])
    if not MIN_ITERATIONS <= iterations <= MAX_CLIENT_ITERATIONS:
        raise AuthenticationFailed(
            f"the broker asks for {challenge['iterations'][:12]} iterations instead of {MIN_ITERATIONS} to "
            f"{MAX_CLIENT_ITERATIONS}"
        )
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), _b64(challenge["salt"]), iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    without_proof = f"c={base64.b64encode(_GS2_HEADER.encode()).decode()},r={challenge['nonce']}"
    signed = f"{first},{challenge.string},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    final = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    server_key = hmac.digest(salted, b"Server Key", digest)
    expected = base64.b64encode(hmac.digest(server_key, signed, digest))
    if not hmac.compare_digest(final.partition(b"v=")[2], expected):
        raise AuthenticationFailed("the broker could not prove that it knows the password")


# -- parts of messages --------------------------------------------------------------------------------------


def _decoded(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("A message is not UTF-8.") from None


def _b64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise AuthenticationFailed("A field of a message is not base64.") from None


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    if re.search(r"=(?!2C|3D)", name):
        raise AuthenticationFailed("A user name is not escaped as SCRAM wants it.")
    return name.replace("=2C", ",").replace("=3D", "=")
