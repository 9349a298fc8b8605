"""Names of certificates and cipher suites in Java's notation."""

from __future__ import annotations

import ssl
from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.tls.distinguished_name import distinguished_name
from ottla.security.tls.jks import BadDer
from ottla.security.tls.settings import openssl_name


def name(*attributes: tuple[x509.ObjectIdentifier, str]) -> str:
    made = x509.Name([x509.NameAttribute(kind, value) for kind, value in attributes])
    return distinguished_name(made.public_bytes())


def test_the_last_part_comes_first() -> None:
    assert (
        name(
            (NameOID.COUNTRY_NAME, "AT"),
            (NameOID.ORGANIZATION_NAME, "Example"),
            (NameOID.ORGANIZATIONAL_UNIT_NAME, "Brokers"),
            (NameOID.COMMON_NAME, "broker-1"),
        )
        == "CN=broker-1,OU=Brokers,O=Example,C=AT"
    )


def test_attributes_without_a_keyword_are_numbers_and_hexadecimal_digits() -> None:
    made = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "ann"),
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.c", _ASN1Type.IA5String),
        ]
    )
    assert distinguished_name(made.public_bytes()) == "1.2.840.113549.1.9.1=#16056140622e63,CN=ann"


def test_characters_with_a_meaning_are_escaped() -> None:
    assert name((NameOID.COMMON_NAME, 'a,b+c"d\\e<f>g;h=i#j')) == 'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h\\=i\\#j'
    assert name((NameOID.COMMON_NAME, "  two  ")) == "CN=\\ \\ two\\ \\ "
    assert name((NameOID.COMMON_NAME, "Jürgen 漢")) == "CN=Jürgen 漢"


def test_parts_with_several_attributes() -> None:
    both = x509.RelativeDistinguishedName(
        [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.USER_ID, "b")]
    )
    assert sorted(distinguished_name(x509.Name([both]).public_bytes()).split("+")) == ["CN=a", "UID=b"]


@given(st.binary(max_size=200))
def test_what_is_no_name_is_refused(data: bytes) -> None:
    with suppress(BadDer):
        distinguished_name(data)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_java_s_names_of_ciphers_are_known_to_openssl(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(openssl)
