"""GSSAPI settings of a listener: the broker's Kerberos identity, and the mapping of principals to users."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ottla.broker.security.jaas_settings import required_login_module, setting_name
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.listeners import listener_value
from ottla.security.java_options import KERBEROS_CONFIG, system_properties
from ottla.security.kerberos_names import BadRules, KerberosNames, NoNameFor
from ottla.security.sasl.exchange import AuthenticationFailed
from ottla.security.sasl.gssapi import MECHANISM, GssapiServer, NotInstalled, acceptor_credentials, library

_SERVICE = "sasl.kerberos.service.name"
_RULES = "sasl.kerberos.principal.to.local.rules"


class KerberosAcceptor:
    """Accepts tickets for the broker. Owner: the event loop."""

    def __init__(
        self, listener: str, principal: str | None, service: str, keytab: str | None, rules: list[str]
    ) -> None:
        self._listener = listener
        self._principal = principal
        self._service = service
        self._keytab = keytab
        self._rules = rules
        self._credentials: Any = None
        self._names: KerberosNames

    def open(self) -> None:
        """Read the keytab. Raises ConfigError if it is missing or has no suitable key. Blocks."""
        try:
            self._credentials = acceptor_credentials(self._principal, self._service, self._keytab)
        except AuthenticationFailed as failure:
            where = self._keytab or "the keytab of this machine"
            raise ConfigError(
                f"Listener {self._listener} cannot accept tickets for {self._principal or self._service} with "
                f"{where}: {failure}."
            ) from None
        realm = str(self._credentials.name).rpartition("@")[2]
        self._names = KerberosNames(self._rules, realm or None)

    def exchange(self) -> GssapiServer:
        return GssapiServer(self._credentials, self._short_name)

    def _short_name(self, principal: str) -> str:
        try:
            return self._names.name(principal)
        except NoNameFor as reason:
            raise AuthenticationFailed(str(reason)) from None


def kerberos_acceptor(
    config: BrokerConfig, listener: str, environment: Mapping[str, str] = os.environ
) -> KerberosAcceptor:
    """Return the acceptor without reading the keytab. Raises ConfigError naming the missing or invalid setting."""
    try:
        library()
    except NotInstalled as missing:
        raise ConfigError(f"Listener {listener} enables GSSAPI. {missing}.") from None
    options = required_login_module(config, listener, MECHANISM).options
    configured = listener_value(config.values, listener, _SERVICE, MECHANISM)
    in_jaas = options.get("serviceName")
    if configured and in_jaas and configured != in_jaas:
        raise ConfigError(f"{_SERVICE} is {configured}, but serviceName in the login module is {in_jaas}.")
    service = str(configured or in_jaas or "")
    if not service:
        raise ConfigError(f"Listener {listener} enables GSSAPI, but {_SERVICE} is not set.")
    keytab = options.get("keyTab")
    if options.get("useKeyTab", "").lower() != "true" or not keytab:
        raise ConfigError(
            f"The login module of GSSAPI on listener {listener} needs useKeyTab=true and keyTab: see "
            f"{setting_name(listener, MECHANISM)}."
        )
    rules = listener_value(config.values, listener, _RULES, MECHANISM)
    texts = [str(each) for each in rules] if isinstance(rules, list | tuple) else ["DEFAULT"]
    try:
        KerberosNames(texts, None)
    except BadRules as error:
        raise ConfigError(f"{_RULES} cannot be read: {error}.") from None
    if (krb5_conf := system_properties(environment).get(KERBEROS_CONFIG)) is not None:
        os.environ.setdefault("KRB5_CONFIG", krb5_conf)  # the library has no other way to set it
    return KerberosAcceptor(listener, options.get("principal"), service, keytab.removeprefix("file:"), texts)
