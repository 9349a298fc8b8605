"""HTTPS contexts of listeners and forwarded requests, from the `ssl.*` settings of Confluent's servers."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from ottla.security.principal import BadMappingRules, PrincipalMapper
from ottla.security.tls.contexts import client_context, server_context
from ottla.security.tls.settings import Given, StoreSettings, TlsError, Versions
from ottla.security.tls.stores import read_key_store, read_trust_store


class BadTlsSettings(ValueError):
    """An invalid setting. The message is one sentence with name and reason."""


_CLIENT_AUTHENTICATION = {"NONE": "none", "REQUESTED": "requested", "REQUIRED": "required"}


def server_tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    stores = _stores(properties)
    asked = _client_authentication(properties)
    try:
        key_store = read_key_store(stores)
        if key_store is None:
            raise BadTlsSettings(
                "A listener with https needs ssl.keystore.location, with key and certificate."
            )
        trusted = read_trust_store(stores)
        if asked != "none" and trusted is None:
            raise BadTlsSettings("ssl.client.authentication needs ssl.truststore.location.")
        return server_context(key_store, trusted, asked, _versions(properties))
    except TlsError as error:
        raise BadTlsSettings(str(error)) from None


def client_tls(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return the context for requests to the leader, or None without a key store and a trust store."""
    stores = _stores(properties)
    if not stores.has_key and not stores.has_trust:
        return None
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    try:
        return client_context(
            read_key_store(stores),
            read_trust_store(stores),
            _versions(properties),
            check_host=algorithm not in ("", "none"),
        )
    except TlsError as error:
        raise BadTlsSettings(str(error)) from None


def principal_mapper(properties: Mapping[str, str]) -> PrincipalMapper:
    rules = properties.get("auth.ssl.principal.mapping.rules") or properties.get(
        "ssl.principal.mapping.rules"
    )
    try:
        return PrincipalMapper(rules or "DEFAULT")
    except BadMappingRules as error:
        raise BadTlsSettings(f"ssl.principal.mapping.rules: {error}.") from None


def _client_authentication(properties: Mapping[str, str]) -> str:
    if "ssl.client.authentication" in properties:
        name = properties["ssl.client.authentication"].strip().upper()
        if name not in _CLIENT_AUTHENTICATION:
            raise BadTlsSettings(
                f"ssl.client.authentication cannot be {name}; give NONE, REQUESTED or REQUIRED."
            )
        return _CLIENT_AUTHENTICATION[name]
    return "required" if properties.get("ssl.client.auth", "").strip().lower() == "true" else "none"


def _stores(properties: Mapping[str, str]) -> StoreSettings:
    def given(name: str) -> Given | None:
        return Given(name, properties[name]) if properties.get(name) else None

    return StoreSettings.of(given)


def _versions(properties: Mapping[str, str]) -> Versions:
    def names(key: str) -> tuple[str, ...]:
        return tuple(filter(None, (each.strip() for each in properties.get(key, "").split(","))))

    return Versions(names("ssl.enabled.protocols"), names("ssl.cipher.suites"))
