"""Promise: a token is valid only if the issuer signed it, for this audience, and it has not expired."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm

from ottla.security.bearer_tokens import (
    BadKeys,
    Rules,
    UnknownKey,
    parse_keys,
    validate,
    validate_unsecured,
)
from ottla.security.sasl.oauthbearer import BearerToken, TokenRefused
from tests.issuer import AUDIENCE, ISSUER, Issuer

RULES = Rules(ISSUER, (AUDIENCE, "other"))


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


def believed(issuer: Issuer, token: str, rules: Rules = RULES) -> BearerToken:
    return validate(token, parse_keys(json.dumps(issuer.keys).encode()), rules)


@pytest.mark.parametrize("alg", ["RS256", "RS512", "PS256", "ES256"])
def test_a_token_of_the_issuer_is_believed(issuer: Issuer, alg: str) -> None:
    found = believed(issuer, issuer.token("ann", alg=alg, scope="read write"))
    assert (found.name, found.scopes) == ("ann", {"read", "write"})
    assert found.expires_at_ms > 0


def test_one_of_several_audiences_is_enough(issuer: Issuer) -> None:
    assert believed(issuer, issuer.token("ann", aud=["web", "other"])).name == "ann"


def test_the_name_may_be_in_another_claim(issuer: Issuer) -> None:
    rules = RULES._replace(sub_claim="azp", scope_claim="scp")
    assert believed(issuer, issuer.token("x", azp="app", scp=["a"]), rules).name == "app"
    with pytest.raises(TokenRefused, match="no azp"):
        believed(issuer, issuer.token("x"), rules)


def test_clocks_may_differ_a_little(issuer: Issuer) -> None:
    assert believed(issuer, issuer.token(seconds=-20)).name == "ann"
    with pytest.raises(TokenRefused, match="expired"):
        believed(issuer, issuer.token(seconds=-40))


def unsigned(claims: dict[str, Any], header: dict[str, Any]) -> str:
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in (header, claims)
    )


def claims_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", ""])
def test_a_token_without_a_signature_is_not(issuer: Issuer, alg: str) -> None:
    token = unsigned(claims_of(issuer.token()), {"alg": alg, "kid": "rsa-1"})
    for signature in ("", issuer.token().split(".")[2]):
        with pytest.raises(TokenRefused, match="not signed with a private key"):
            believed(issuer, f"{token}.{signature}")


@pytest.mark.parametrize("hash_name", ["sha256", "sha384", "sha512"])
def test_the_public_key_is_no_secret_to_sign_with(issuer: Issuer, hash_name: str) -> None:
    public = issuer.rsa.public_key()
    secrets = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        RSAAlgorithm.to_jwk(public).encode(),
    ]
    token = unsigned(claims_of(issuer.token()), {"alg": "HS" + hash_name[3:], "kid": "rsa-1"})
    for secret in secrets:
        signature = base64.urlsafe_b64encode(hmac.digest(secret, token.encode(), hash_name)).decode()
        with pytest.raises(TokenRefused, match="not signed with a private key"):
            believed(issuer, f"{token}.{signature.rstrip('=')}")


def test_a_symmetric_key_of_the_issuer_is_not_taken() -> None:
    document = {"keys": [{"kty": "oct", "kid": "rsa-1", "k": base64.urlsafe_b64encode(b"x" * 32).decode()}]}
    with pytest.raises(BadKeys):
        parse_keys(json.dumps(document).encode())
    assert hashlib.sha256  # the algorithm exists; the kind of key is refused


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"iss": "https://elsewhere.example"}, "another issuer"),
        ({"aud": "web"}, "another audience"),
        ({"aud": None}, "no aud"),
        ({"iss": None}, "no iss"),
        ({"exp": None}, "no exp"),
        ({"iat": None}, "no iat"),
        ({"sub": None}, "no sub"),
        ({"sub": ""}, "no sub"),
        ({"sub": " "}, "no sub"),
        ({"sub": 7}, "no sub"),
        ({"sub": ["ann"]}, "no sub"),
        ({"nbf": 1 << 40}, "not valid"),
        ({"iat": 1 << 40}, "not valid"),
        ({"exp": "soon"}, "not valid"),
        ({"exp": 1e300}, "no exp|not valid"),
        ({"exp": True}, "no exp|expired"),
        ({"scope": ["a", ""]}, "scope"),
        ({"scope": [1]}, "scope"),
        ({"scope": ""}, "scope"),
        ({"scope": " "}, "scope"),
        ({"scope": ["a", " a"]}, "scope"),
        ({"iat": -1}, "not valid"),
        ({"iat": True}, "not valid"),
        ({"iat": "then"}, "not valid"),
        ({"iat": 20_000_000_001, "exp": 20_000_000_000}, "not valid"),
    ],
)
def test_what_a_token_must_say(issuer: Issuer, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        believed(issuer, issuer.token(**changes))


def test_what_a_token_need_not_say(issuer: Issuer) -> None:
    """As in Apache Kafka: nbf sets the start of validity, and scopes are ignored here."""
    for changes in (
        {"iat": int(time.time()) + 100},
        {"iat": 0},
        {"scope": []},
        {"scope": 5},
        {"scope": " a a "},
    ):
        assert believed(issuer, issuer.token("ann", **changes)).name == "ann"


def test_a_key_that_is_not_published_counts_for_nothing(issuer: Issuer) -> None:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    with pytest.raises(TokenRefused, match="signature"):
        believed(issuer, issuer.token(key=stranger))
    with pytest.raises(UnknownKey):
        believed(issuer, issuer.token(key=stranger, kid="mine"))
    # The header carries its own key, or the key's URL.
    jwk = json.loads(RSAAlgorithm.to_jwk(stranger.public_key()))
    import jwt

    for header in ({"jwk": jwk}, {"jku": "http://127.0.0.1:1/keys"}, {"x5u": "file:///etc/passwd"}):
        token = jwt.encode(claims_of(issuer.token()), stranger, "RS256", headers={"kid": "rsa-1", **header})
        with pytest.raises(TokenRefused, match="signature"):
            believed(issuer, token)


def test_without_a_name_of_the_key_there_must_be_only_one_that_fits(issuer: Issuer) -> None:
    assert believed(issuer, issuer.token(kid=None)).name == "ann"
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    two = {"keys": [*issuer.keys["keys"], json.loads(RSAAlgorithm.to_jwk(other.public_key()))]}
    with pytest.raises(TokenRefused, match="signing key"):
        validate(issuer.token(kid=None), parse_keys(json.dumps(two).encode()), RULES)


def test_a_key_signs_only_with_what_it_is_for(issuer: Issuer) -> None:
    entries = json.loads(json.dumps(issuer.keys["keys"]))
    entries[0]["alg"] = "RS512"
    keys = parse_keys(json.dumps({"keys": entries}).encode())
    with pytest.raises(TokenRefused):
        validate(issuer.token(alg="RS256"), keys, RULES)
    entries[0] = {**entries[0], "use": "enc"}
    [only] = parse_keys(json.dumps({"keys": entries}).encode())
    assert only.id == "ec-1"


@pytest.mark.parametrize(
    "document",
    [b"", b"{}", b"[]", b'{"keys":3}', b'{"keys":[]}', b'{"keys":[{"kty":"RSA","n":"!","e":"AQAB"}]}', b"[" * 99999,
     b'{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}', b'{"keys":["x",null]}', b"\xff\xfe"],
)  # fmt: skip
def test_what_is_no_set_of_keys(document: bytes) -> None:
    with pytest.raises(BadKeys):
        parse_keys(document)


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "...", "a.b.c", "eyJ", "e30.e30.", "e30.e30.e30", "bnVsbA.bnVsbA.", "W10.e30.",
     unsigned({}, {"alg": ["RS256"], "kid": "rsa-1"}) + ".AA", unsigned({}, {"alg": "RS256", "kid": {}}) + ".AA",
     base64.urlsafe_b64encode(b"[" * 50000).decode() + ".e30.AA",
     base64.urlsafe_b64encode(b'{"alg":"RS256","kid":' + b"[" * 50000).decode() + ".e30.AA"],
)  # fmt: skip
def test_what_is_no_token(issuer: Issuer, token: str) -> None:
    with pytest.raises(TokenRefused):
        believed(issuer, token)
    with pytest.raises(TokenRefused):
        validate_unsecured(token)


def test_a_signed_document_that_is_no_set_of_claims(issuer: Issuer) -> None:
    from jwt.api_jws import encode

    for payload in (b"[]", b"null", b'"text"', b"[" * 50000, b"\xff"):
        token = encode(payload, issuer.rsa, "RS256", headers={"kid": "rsa-1"})
        with pytest.raises(TokenRefused):
            believed(issuer, token)


def test_refusals_do_not_repeat_the_token(issuer: Issuer) -> None:
    for token in (issuer.token(iss="x"), issuer.token(seconds=-99), "a.b.c", issuer.token(kid="secret-name")):
        with pytest.raises(TokenRefused) as refused:
            believed(issuer, token)
        parts = [part for part in token.split(".") if len(part) > 1]
        assert not any(part in str(refused.value) for part in (*parts, "secret-name"))


def test_unsigned_tokens_where_they_are_wanted(issuer: Issuer) -> None:
    claims = {"sub": "ann", "iat": 0, "exp": 1 << 33}
    assert validate_unsecured(unsigned(claims, {"alg": "none"}) + ".").name == "ann"
    for wrong in (
        unsigned({**claims, "exp": 5}, {"alg": "none"}) + ".",
        unsigned({**claims, "sub": ""}, {"alg": "none"}) + ".",
        unsigned(claims, {"alg": "none"}) + ".AA",
        unsigned(claims, {"alg": "none"}),
        issuer.token(),
    ):
        with pytest.raises(TokenRefused):
            validate_unsecured(wrong)
