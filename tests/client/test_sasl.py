"""The SASL exchanges of the plain connection, with the examples from the RFCs."""

import pytest

from ottla.client.connection import exchange
from ottla.client.errors import ClientError
from ottla.client.settings import Sasl

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()


@pytest.fixture
def scram(monkeypatch):
    monkeypatch.setattr("secrets.token_urlsafe", lambda _size: NONCE)
    return exchange(Sasl("SCRAM-SHA-256", "user", "pencil"))


def test_plain():
    assert next(exchange(Sasl("PLAIN", "tim", "secret"))) == b"\0tim\0secret"


def test_scram_proves_and_checks(scram):
    assert next(scram) == f"n,,n=user,r={NONCE}".encode()
    assert scram.send(CHALLENGE) == (
        f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    with pytest.raises(StopIteration):
        scram.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_a_broker_that_does_not_know_the_password_is_refused(scram):
    next(scram)
    scram.send(CHALLENGE)
    with pytest.raises(ClientError):
        scram.send(b"v=AAAA")


def test_an_unknown_mechanism_is_said():
    with pytest.raises(ClientError, match="DIGEST-MD5 is not supported"):
        exchange(Sasl("DIGEST-MD5"))
