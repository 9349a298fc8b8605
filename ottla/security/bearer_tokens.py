"""Validation of JSON Web Tokens: signature, issuer, audience and lifetime.

Only asymmetric signatures count. `none` and symmetric algorithms, whose key would be public here, are never accepted,
regardless of claims in a token or key.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jwt
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from ottla.security.sasl.oauthbearer import BearerToken, TokenRefused

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_EDWARDS = ("Ed25519", "Ed448")
_MOST_KEYS = 1000


class BadKeys(Exception):
    """A document is not a valid key set. The message gives the reason."""


class Rules(NamedTuple):
    """Requirements for a token."""

    issuer: str | None  # None: any
    audiences: tuple[str, ...]  # empty: any
    skew_seconds: int = 30
    scope_claim: str = "scope"
    sub_claim: str = "sub"


class Key(NamedTuple):
    """A public key and its permitted algorithms."""

    id: str | None
    algorithms: tuple[str, ...]
    public: Any

    def __repr__(self) -> str:
        return f"Key({self.id!r}, {'/'.join(self.algorithms)})"


def parse_keys(document: bytes) -> tuple[Key, ...]:
    """Return the verification keys of a JSON Web Key Set. Others are skipped, as RFC 7517 requires."""
    try:
        entries = json.loads(document)["keys"]
        if not isinstance(entries, list):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadKeys("it is not a JSON Web Key Set") from None
    keys = tuple(key for entry in entries[:_MOST_KEYS] if (key := _key(entry)) is not None)
    if not keys:
        raise BadKeys("it has no public key for signatures")
    return keys


def _key(entry: object) -> Key | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or "d" in entry:
        return None
    operations = entry.get("key_ops")
    if isinstance(operations, list) and "verify" not in operations:
        return None
    algorithms: tuple[str, ...]
    public: Any
    try:
        match entry.get("kty"), entry.get("crv"):
            case "RSA", _:
                algorithms, public = _RSA, RSAAlgorithm.from_jwk(entry)
            case "EC", str(curve) if curve in _CURVES:
                algorithms, public = (_CURVES[curve],), ECAlgorithm.from_jwk(entry)
            case "OKP", str(curve) if curve in _EDWARDS:
                algorithms, public = ("EdDSA",), OKPAlgorithm.from_jwk(entry)
            case _:
                return None
    except Exception:  # the library rejects invalid numbers with various errors
        return None
    stated = entry.get("alg")
    if stated is not None:
        algorithms = tuple(each for each in algorithms if each == stated)
    kid = entry.get("kid")
    return Key(str(kid) if kid is not None else None, algorithms, public) if algorithms else None


def validate(token: str, keys: Iterable[Key], rules: Rules) -> BearerToken:
    """Raises TokenRefused, or UnknownKey if a newer key set might contain the key."""
    header = _header(token)
    algorithm, kid = header.get("alg"), header.get("kid")
    fitting = [key for key in keys if algorithm in key.algorithms and kid in (None, key.id)]
    if not fitting:
        if algorithm not in (*_RSA, *_CURVES.values(), "EdDSA"):
            raise TokenRefused("The token is not signed with a private key.")
        raise UnknownKey("The token is signed with a key that the issuer does not publish.")
    if len(fitting) > 1:
        raise TokenRefused("The token does not name its signing key.")
    [key] = fitting
    try:
        claims = jwt.decode(
            token,
            key.public,
            algorithms=[str(algorithm)],
            audience=rules.audiences or None,
            issuer=rules.issuer,
            leeway=rules.skew_seconds,
            options={
                "require": [
                    "exp",
                    "iat",
                    *(["iss"] if rules.issuer else []),
                    *(["aud"] if rules.audiences else []),
                ],
                "verify_sub": False,
                "verify_iat": False,
                "verify_iss": rules.issuer is not None,
                "verify_aud": bool(rules.audiences),
            },
        )
    except jwt.ExpiredSignatureError:
        raise TokenRefused("The token has expired.") from None
    except jwt.InvalidIssuerError:
        raise TokenRefused("The token is of another issuer.") from None
    except jwt.InvalidAudienceError:
        raise TokenRefused("The token is meant for another audience.") from None
    except jwt.InvalidSignatureError:
        raise TokenRefused("The signature of the token is wrong.") from None
    except jwt.MissingRequiredClaimError as missing:
        raise TokenRefused(f"The token has no {missing.claim}.") from None
    except Exception:  # a library error on hostile input must not admit the client
        raise TokenRefused("The token is not valid.") from None
    believed = _believed(claims, rules.scope_claim, rules.sub_claim)
    _check_as_kafka(claims, rules.scope_claim)
    return believed


def _check_as_kafka(claims: Mapping[str, Any], scope_claim: str) -> None:
    """Check like Kafka: an iat may be ahead of our clock but not after the token's expiry; scopes are unique and not
    empty.
    """
    issued = claims["iat"]
    if isinstance(issued, bool) or not isinstance(issued, int | float) or not 0 <= issued <= claims["exp"]:
        raise TokenRefused("The iat of the token is not valid.")
    scopes = claims.get(scope_claim)
    named = [scopes] if isinstance(scopes, str) else scopes if isinstance(scopes, list) else []
    stripped = [each.strip() for each in named]
    if "" in stripped or len(set(stripped)) < len(stripped):
        raise TokenRefused(f"The {scope_claim} of the token is not valid.")


class UnknownKey(TokenRefused):
    """The token's signing key is not in the known key set."""


def validate_unsecured(token: str, rules: Rules | None = None, scope_claim: str = "scope") -> BearerToken:
    """Accept an unsigned token, with which anyone can claim any identity. Only for experiments."""
    skew = rules.skew_seconds if rules is not None else 30
    header = _header(token)
    parts = token.split(".")
    if header.get("alg") != "none" or len(parts) != 3 or parts[2]:
        raise TokenRefused("The token is signed, but this listener believes unsigned ones only.")
    try:
        claims = json.loads(_decoded(parts[1]))
        believed = _believed(claims, scope_claim, "sub")
        too_early = float(claims.get("iat", 0)) > time.time() + skew
    except TokenRefused:
        raise
    except Exception:
        raise TokenRefused("The token is not valid.") from None
    if too_early or believed.expires_at_ms / 1000 + skew <= time.time():
        raise TokenRefused("The token has expired, or is not valid yet.")
    return believed


def _header(token: str) -> Mapping[str, object]:
    try:
        header = json.loads(_decoded(token.partition(".")[0]))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or not isinstance(header.get("kid"), str | None):
        raise TokenRefused("The client's token is not a JSON Web Token.")
    return header


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _believed(claims: Mapping[str, Any], scope_claim: str, sub_claim: str) -> BearerToken:
    name, expires = claims.get(sub_claim), claims.get("exp")
    if not isinstance(name, str) or not name.strip():
        raise TokenRefused(f"The token has no {sub_claim}.")
    if isinstance(expires, bool) or not isinstance(expires, int | float) or not 0 < expires < 1e11:
        raise TokenRefused("The token has no exp.")
    scopes = claims.get(scope_claim)
    if isinstance(scopes, str):
        scopes = scopes.split()
    elif not isinstance(scopes, list):
        scopes = []
    if not all(isinstance(each, str) and each.strip() for each in scopes):
        raise TokenRefused(f"The {scope_claim} of the token is not valid.")
    return BearerToken(name.strip(), int(expires * 1000), frozenset(scopes))
