"""Our own certificates are accepted by other software, for these hosts and these uses only."""

import ssl
import tempfile

import pytest
from cryptography import x509

from ottla.security.certificates import Authority, Issued, load_authority, make_authority


def test_a_client_that_trusts_the_authority_accepts_the_certificate_for_its_hosts():
    authority = make_authority()
    issued = authority.issue("broker", ["localhost", "127.0.0.1", "::1"])
    for host in ("localhost", "127.0.0.1", "::1"):
        handshake(issued, authority, host)


def test_a_client_refuses_the_certificate_for_another_host():
    authority = make_authority()
    issued = authority.issue("broker", ["localhost"])
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(issued, authority, "example.org")


def test_a_client_refuses_the_certificate_of_another_authority():
    with pytest.raises(
        ssl.SSLCertVerificationError, match=r"self-signed|unable to get local issuer|signature"
    ):
        handshake(make_authority().issue("broker", ["localhost"]), make_authority(), "localhost")


def test_a_client_s_certificate_does_not_make_a_server():
    authority = make_authority()
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(authority.issue("ann", ["localhost"], client=True), authority, "localhost")


def test_an_authority_that_was_stored_issues_certificates_again():
    authority = make_authority("Ours")
    again = load_authority(authority.certificate_pem, authority.key_pem)
    handshake(again.issue("broker", ["localhost"]), authority, "localhost")


def test_the_chain_has_the_leaf_first_and_then_the_authority():
    authority = make_authority("Ours")
    chain = x509.load_pem_x509_certificates(authority.issue("broker").certificate_pem)
    assert [certificate.subject.rfc4514_string() for certificate in chain] == ["CN=broker", "CN=Ours"]


def test_what_cannot_issue_is_refused_in_one_sentence():
    authority, other = make_authority(), make_authority()
    leaf = authority.issue("broker")
    with pytest.raises(ValueError, match="does not belong"):
        load_authority(authority.certificate_pem, other.key_pem)
    with pytest.raises(ValueError, match="not that of an authority"):
        load_authority(leaf.certificate_pem, leaf.key_pem)
    with pytest.raises(ValueError, match="cannot be read as PEM"):
        load_authority(b"nothing", authority.key_pem)
    with pytest.raises(ValueError, match="cannot be read as PEM"):
        load_authority(authority.certificate_pem, b"nothing")


def test_keys_are_not_shown():
    authority = make_authority()
    assert "PRIVATE KEY" not in repr(authority)
    assert "PRIVATE KEY" not in repr(authority.issue("broker"))


def handshake(issued: Issued, authority: Authority, host: str) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(issued.certificate_pem + issued.key_pem)
        file.flush()
        server.load_cert_chain(file.name)
    client = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                pass
