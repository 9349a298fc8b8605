"""The `ssl.*` settings of a listener or client, each with its full name, and the names of cipher suites."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class TlsError(ValueError):
    """A TLS problem. The message is one sentence that names the setting and contains no password."""


class Given(NamedTuple):
    """A setting with its full name, such as `listener.name.internal.ssl.keystore.location`."""

    name: str
    value: str

    def __repr__(self) -> str:
        return f"Given({self.name!r})"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Key store and trust store. Hashable; unset settings are None."""

    keystore_location: Given | None = None
    keystore_password: Given | None = None
    keystore_key: Given | None = None  # PEM itself
    keystore_certificate_chain: Given | None = None  # PEM itself
    key_location: Given | None = None  # key file of librdkafka clients
    key_password: Given | None = None
    truststore_location: Given | None = None
    truststore_password: Given | None = None
    truststore_certificates: Given | None = None  # PEM itself

    @classmethod
    def of(cls, given: Callable[[str], Given | None]) -> StoreSettings:
        """Collect the settings by Kafka's names."""
        return cls(
            keystore_location=given("ssl.keystore.location"),
            keystore_password=given("ssl.keystore.password"),
            keystore_key=given("ssl.keystore.key"),
            keystore_certificate_chain=given("ssl.keystore.certificate.chain"),
            key_password=given("ssl.key.password"),
            truststore_location=given("ssl.truststore.location"),
            truststore_password=given("ssl.truststore.password"),
            truststore_certificates=given("ssl.truststore.certificates"),
        )

    @property
    def has_key(self) -> bool:
        return self.keystore_location is not None or self.keystore_certificate_chain is not None

    @property
    def has_trust(self) -> bool:
        return self.truststore_location is not None or self.truststore_certificates is not None

    @property
    def files(self) -> list[str]:
        """Return the files to reread after a change."""
        given = (self.keystore_location, self.key_location, self.truststore_location)
        return [each.value for each in given if each is not None]


@dataclass(frozen=True, slots=True)
class Versions:
    """TLS versions and cipher suites to allow; empty means Kafka's or OpenSSL's default."""

    protocols: tuple[str, ...] = ()
    ciphers: tuple[str, ...] = ()


# TLS 1.3 suites have the same names in both.
TLS_1_3 = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)
_SUITE = re.compile(
    r"TLS_(?P<exchange>ECDHE_ECDSA|ECDHE_RSA|DHE_RSA|RSA)_WITH_"
    r"(?:AES_(?P<bits>128|256)_(?P<mode>GCM|CBC|CCM_8|CCM)|(?P<chacha>CHACHA20_POLY1305))(?:_(?P<mac>SHA|SHA256|SHA384))?"
)


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name. Names unknown to Java pass unchanged."""
    found = _SUITE.fullmatch(suite)
    if found is None:
        return suite
    exchange = "" if found["exchange"] == "RSA" else found["exchange"].replace("_", "-") + "-"
    if found["chacha"]:
        return f"{exchange}CHACHA20-POLY1305"
    mode = {"CBC": "", "GCM": "-GCM", "CCM": "-CCM", "CCM_8": "-CCM8"}[found["mode"]]
    mac = f"-{found['mac']}" if found["mac"] and not found["mode"].startswith("CCM") else ""
    return f"{exchange}AES{found['bits']}{mode}{mac}"
