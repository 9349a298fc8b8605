"""`ottla certs …`: certificates of the authority created by the first `ottla start --secure`."""

from __future__ import annotations

import pytest
from cryptography import x509

from ottla.cli.jobs.secured_data import SecuredData, advertised_at, close_to_others, hosts_of
from ottla.security.certificates import make_authority


@pytest.fixture
def data(tmp_path):
    close_to_others(tmp_path / "data")
    secured = SecuredData(tmp_path / "data")
    secured.prepare(hosts_of(["broker.example:9093"]))
    return secured


def leaf(path):
    return x509.load_pem_x509_certificates(path.read_bytes())[0]


def mode(path):
    return path.stat().st_mode & 0o777


def test_the_authority_and_the_broker_are_shown(alone, data):
    shown = alone("certs", "show", "--data", data.directory, "--json").json
    assert [each["file"] for each in shown] == ["ca.pem", "server.pem"]
    assert shown[1]["issuer"] == shown[0]["subject"]
    assert {"broker.example", "localhost", "127.0.0.1"} <= set(shown[1]["hosts"])
    assert alone("certs", "show", "--data", data.directory).lines[0].split()[0] == "FILE"


def test_a_renewed_certificate_has_a_new_key_and_the_same_names(alone, data):
    before = leaf(data.server)
    alone("certs", "renew", "--data", data.directory, "--host", "other.example", "--days", 10)
    after = leaf(data.server)
    after.verify_directly_issued_by(leaf(data.authority))
    assert after.public_key() != before.public_key()
    assert after.subject == before.subject
    names = [
        set(each.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        for each in (before, after)
    ]
    assert names[1] - names[0] == {x509.DNSName("other.example")}
    assert names[0] < names[1]
    assert mode(data.server) == 0o600


def test_a_certificate_for_a_client_is_issued(alone, data, tmp_path):
    alone("certs", "issue", "ann", "--data", data.directory, "--out", tmp_path)
    issued = leaf(tmp_path / "ann.pem")
    issued.verify_directly_issued_by(leaf(data.authority))
    assert issued.subject.rfc4514_string() == "CN=ann"
    assert mode(tmp_path / "ann.key") == 0o600
    again = alone("certs", "issue", "ann", "--data", data.directory, "--out", tmp_path, check=False)
    assert (again.code, len(again.err.splitlines())) == (1, 1)
    assert f"{tmp_path / 'ann.pem'} is there already" in again.err


@pytest.mark.parametrize(
    "args",
    [("renew", "--host", "grün"), ("renew", "--host", ""), ("issue", "a" * 65), ("issue", "")],
    ids=str,
)
def test_a_name_that_no_certificate_can_have_is_one_sentence(alone, data, tmp_path, args):
    out = ("--out", tmp_path) if args[0] == "issue" else ()
    failed = alone("certs", *args, *out, "--data", data.directory, check=False)
    assert (failed.code, len(failed.err.splitlines())) == (1, 1)
    assert "cannot be the name" in failed.err


@pytest.mark.parametrize("args", [("show",), ("renew",), ("issue", "ann"), ("issue", "../ann")])
def test_without_an_authority_there_is_one_sentence(alone, tmp_path, args):
    failed = alone("certs", *args, "--data", tmp_path, check=False)
    assert (failed.code, len(failed.err.splitlines())) == (1, 1)
    assert failed.err.startswith("Error: ")


def test_what_is_advertised_is_a_host_too():
    listeners = "PLAINTEXT://inside:9092, SASL_SSL://broker.example.com:9093,sasl_ssl://[fe80::1]:9094"
    assert advertised_at(listeners) == ["broker.example.com:9093", "[fe80::1]:9094"]
    assert hosts_of(["0.0.0.0:9092", *advertised_at(listeners)])[:3] == [
        "broker.example.com",
        "fe80::1",
        "localhost",
    ]


def test_an_authority_is_kept_when_a_certificate_from_elsewhere_takes_over(data, tmp_path):
    before = data.authority_key.read_bytes()
    issued = make_authority("Somebody").issue("somebody", ["localhost"])
    (tmp_path / "own.pem").write_bytes(issued.key_pem + issued.certificate_pem)
    data.take(tmp_path / "own.pem", None, None)
    assert (data.directory / "ca.key.old").read_bytes() == before
    assert not data.authority_key.exists()
    assert not data.authority.exists()
    data.prepare(["other.example"])
    assert leaf(data.server).subject.rfc4514_string() == "CN=somebody"


def test_nothing_is_made_anew_without_need(data):
    before = data.server.read_bytes()
    data.prepare(hosts_of(["broker.example:9093"]))
    assert data.server.read_bytes() == before


def test_a_new_host_and_the_end_of_a_certificate_are_needs(data):
    data.prepare(hosts_of(["new.example:9093"]))
    [_, server] = data.certificates()
    assert {"new.example", "broker.example"} <= set(server.hosts)
    data.renew(days=10)
    soon = data.server.read_bytes()
    data.prepare([])
    assert data.server.read_bytes() != soon
