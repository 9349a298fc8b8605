"""Map Java's cipher suite names, used in Kafka's settings, to OpenSSL's."""

from __future__ import annotations

import re

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
