"""Promise: without the password no client gets in, whatever it sends, or learns which users exist."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.security.sasl import plain, scram
from ottla.security.sasl.plain import AuthenticationFailed, Login, PlainServer
from ottla.security.sasl.scram import ScramCredential, ScramServer

MECHANISMS = list(scram.HASHES)
PENCIL = {
    name: scram.credential(name, "pencil", b"\x5bmYh\x9d\x125\x8e\xec\xa0K\x14\x126\xfa\x81", 4096)
    for name in MECHANISMS
}


def only(name: str, credential: ScramCredential, *, token: bool = False) -> scram.Credentials:
    return lambda asked, is_token: credential if (asked, is_token) == (name, token) else None


def scram_server(
    mechanism: str, credentials: scram.Credentials, owners: scram.TokenOwners = lambda _: None
) -> ScramServer:
    return ScramServer(
        mechanism,
        credentials,
        owners,
        stand_ins=lambda name, _: scram.stand_in(mechanism, name, b"secret of the cluster", []),
    )


def converse(server: ScramServer, client: scram.ClientExchange) -> None:
    message = next(client)
    try:
        while True:
            message = client.send(server.answer(message))
    except StopIteration:
        return


# -- SCRAM --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["ann", "o=hara,jr", "Zoë", "User:*", "a/b"])
def test_who_knows_the_password_gets_in(mechanism: str, name: str) -> None:
    server = scram_server(mechanism, only(name, PENCIL[mechanism]))
    converse(server, scram.log_in(mechanism, name, "pencil"))
    assert server.login == Login(name)


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    nonces = iter(["rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"])
    monkeypatch.setattr("secrets.token_urlsafe", lambda _: next(nonces))
    credential = scram.credential(
        "SCRAM-SHA-256", "pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096
    )
    next(nonces)
    server = scram_server("SCRAM-SHA-256", only("user", credential))
    challenge = server.answer(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert (
        challenge == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = server.answer(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("name", "password"), [("ann", "pen"), ("ann", ""), ("bob", "pencil"), ("ANN", "pencil")]
)
def test_who_does_not_know_it_is_refused_in_the_same_words(mechanism: str, name: str, password: str) -> None:
    server = scram_server(mechanism, only("ann", PENCIL[mechanism]))
    with pytest.raises(AuthenticationFailed, match=r"^The user does not exist, or the password is wrong\.$"):
        converse(server, scram.log_in(mechanism, name, password))
    assert server.login is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_who_does_not_exist_looks_like_one_who_does(mechanism: str) -> None:
    def challenge(name: str) -> dict[str, str]:
        answer = scram_server(mechanism, only("ann", scram.new_credential(mechanism, "x"))).answer(
            f"n,,n={name},r=abc".encode()
        )
        return dict(part.split("=", 1) for part in answer.decode().split(","))

    there, missing, again = challenge("ann"), challenge("bob"), challenge("bob")
    assert missing.keys() == there.keys()
    assert len(missing["s"]) == len(there["s"])
    assert missing["i"] == there["i"]
    assert missing["s"] == again["s"], "another salt each time would give it away"


def test_an_unknown_user_has_the_shape_of_a_known_one() -> None:
    mechanism, secret = "SCRAM-SHA-256", b"secret of the cluster"
    texts = [
        scram.format_credential(scram.credential(mechanism, "x", bytes(salt_bytes), iterations))
        for salt_bytes, iterations in ((16, 8192), (26, 8192), (26, 16384))
    ]
    shapes = [shape for shape in map(scram.shape_of, texts) if shape is not None]
    seen = {
        (len(each.salt), each.iterations)
        for each in (scram.stand_in(mechanism, f"user {number}", secret, shapes) for number in range(200))
    }
    assert seen == {(16, 8192), (26, 8192), (26, 16384)}
    assert scram.shape_of("salt=c2FsdA==") is None


def proof(mechanism: str, signed: str) -> str:
    digest = scram.HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(digest, b"pencil", PENCIL[mechanism].salt, 4096)
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed.encode(), digest)
    return base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()


def test_an_answer_to_another_challenge_is_refused_though_its_proof_is_right() -> None:
    mechanism = "SCRAM-SHA-256"
    server = scram_server(mechanism, only("ann", PENCIL[mechanism]))
    challenge = server.answer(b"n,,n=ann,r=abc").decode()
    for nonce in ("abc", "abcd", challenge.split(",")[0][2:] + "x"):
        without_proof = f"c=biws,r={nonce}"
        right = proof(mechanism, f"n=ann,r=abc,{challenge},{without_proof}")
        with pytest.raises(AuthenticationFailed, match="another challenge"):
            server.answer(f"{without_proof},p={right}".encode())
    assert server.login is None


def test_an_older_librdkafka_logs_in_with_its_nonce_said_twice() -> None:
    mechanism = "SCRAM-SHA-256"
    server = scram_server(mechanism, only("ann", PENCIL[mechanism]))
    challenge = server.answer(b"n,,n=ann,r=abc").decode()
    without_proof = f"c=biws,r=abc{challenge.split(',')[0][2:]}"
    right = proof(mechanism, f"n=ann,r=abc,{challenge},{without_proof}")
    server.answer(f"{without_proof},p={right}".encode())
    assert server.login is not None
    assert server.login.name == "ann"


def test_a_gs2_header_that_changes_is_refused_though_its_proof_is_right() -> None:
    mechanism = "SCRAM-SHA-256"
    server = scram_server(mechanism, only("ann", PENCIL[mechanism]))
    challenge = server.answer(b"n,a=ann,n=ann,r=abc").decode()
    without_proof = f"c=biws,{challenge.split(',')[0]}"
    right = proof(mechanism, f"n=ann,r=abc,{challenge},{without_proof}")
    with pytest.raises(AuthenticationFailed, match="contradicts"):
        server.answer(f"{without_proof},p={right}".encode())


@pytest.mark.parametrize(
    "first",
    [
        b"n,a=bob,n=ann,r=abc",
        b"y,,n=ann,r=abc",
        b"p=tls-unique,,n=ann,r=abc",
        b"n,,n=ann",
        b"n,,n=,r=abc",
        b"n,,n=an=n,r=abc",
        b"n,,r=abc,n=ann",
        b"n,,m=x,n=ann,r=abc",
        b"n,,n=ann,r=a c",
        b"",
        b"\xff\xfe",
    ],
)
def test_first_messages_that_are_refused(first: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        scram_server("SCRAM-SHA-256", only("ann", PENCIL["SCRAM-SHA-256"])).answer(first)


def test_a_credential_with_few_iterations_lets_nobody_in() -> None:
    weak = scram.credential("SCRAM-SHA-256", "pencil", b"salt", 1000)
    with pytest.raises(AuthenticationFailed, match="iterations"):
        scram_server("SCRAM-SHA-256", only("ann", weak)).answer(b"n,,n=ann,r=abc")


def test_a_token_is_not_a_user() -> None:
    mechanism = "SCRAM-SHA-512"

    def owner(token_id: str) -> Login | None:
        return Login("ann", token_id, 17) if token_id == "id" else None

    server = scram_server(mechanism, only("id", PENCIL[mechanism], token=True), owner)
    converse(server, scram.log_in(mechanism, "id", "pencil", is_token=True))
    assert server.login == Login("ann", token_id="id", expires_at_ms=17), "its owner"
    server = scram_server(mechanism, only("id", PENCIL[mechanism], token=True))
    with pytest.raises(AuthenticationFailed):
        converse(server, scram.log_in(mechanism, "id", "pencil", is_token=True))
    for name, is_token, kept_as_token in (("id", False, True), ("id", True, False)):
        server = scram_server(mechanism, only("id", PENCIL[mechanism], token=kept_as_token), owner)
        with pytest.raises(AuthenticationFailed):
            converse(server, scram.log_in(mechanism, name, "pencil", is_token=is_token))


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"r={},s=c2FsdA==,i=2147483647", "2147483647 iterations"),
        (b"r={},s=c2FsdA==,i=99999999999999999999", "iterations"),
        (b"r={},s=c2FsdA==,i=4095", "4095 iterations"),
        (b"r={},s=c2FsdA==", "not one of SCRAM"),
        (b"e=other-error", "not one of SCRAM"),
        (b"r=mine,s=c2FsdA==,i=4096", "nonce"),
        (b"r={},s=!!,i=4096", "base64"),
        (b"", "not one of SCRAM"),
        (b"\xff", "UTF-8"),
    ],
)
def test_a_client_does_not_do_what_a_hostile_broker_wants(challenge: bytes, why: str) -> None:
    client = scram.log_in("SCRAM-SHA-256", "ann", "pencil")
    nonce = next(client).partition(b"r=")[2]
    with pytest.raises(AuthenticationFailed, match=why):
        client.send(challenge.replace(b"{}", nonce + b"x"))


@settings(max_examples=300, deadline=None)
@given(
    messages=st.lists(
        st.binary(max_size=200) | st.text("nracpsi=,*+/ab12", max_size=60).map(str.encode), max_size=3
    )
)
def test_nothing_that_is_sent_lets_anybody_in_or_breaks_the_server(messages: list[bytes]) -> None:
    for server in (
        scram_server("SCRAM-SHA-256", only("a", PENCIL["SCRAM-SHA-256"])),
        PlainServer({"a": "pencil"}.get),
    ):
        try:
            for message in messages:
                server.answer(message)
        except AuthenticationFailed:
            pass
        assert server.login is None


def test_credentials_are_kept_in_kafkas_words_and_are_not_shown() -> None:
    credential = scram.new_credential("SCRAM-SHA-512", "secret", 8192)
    text = scram.format_credential(credential)
    assert text.startswith("salt=")
    assert text.endswith(",iterations=8192")
    assert scram.parse_credential(text) == credential
    assert base64.b64encode(credential.stored_key).decode() not in repr(credential)
    for broken in (
        "",
        "salt=a",
        text.replace("iterations=8192", "iterations=x"),
        text + ",more=1",
        text.replace("salt=", "salt=!"),
    ):
        with pytest.raises(ValueError, match=r"^not a SCRAM credential$"):
            scram.parse_credential(broken)


# -- PLAIN --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [b"\0ann\0pencil", b"ann\0ann\0pencil"])
def test_plain_lets_in_who_knows_the_password(message: bytes) -> None:
    server = PlainServer({"ann": "pencil"}.get)
    assert server.answer(message) == b""
    assert server.login == Login("ann")
    [sent] = plain.log_in("ann", "pencil")
    assert sent == b"\0ann\0pencil"


@pytest.mark.parametrize(
    "message",
    [
        b"\0ann\0wrong",
        b"\0bob\0pencil",
        b"bob\0ann\0pencil",
        b"\0ann\0",
        b"\0\0pencil",
        b"\0ann\0pencil\0",
        b"ann\0pencil",
        b"",
        b"\0\xff\0pencil",
        b"\0nobody\0",
    ],
)
def test_plain_refuses(message: bytes) -> None:
    server = PlainServer({"ann": "pencil", "nobody": ""}.get)
    with pytest.raises(AuthenticationFailed):
        server.answer(message)
    assert server.login is None
