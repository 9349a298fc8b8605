"""The ways to log in, and how each client is told of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
# SSL alone encrypts; with mTLS the client has a certificate, and its name is the user.
WITHOUT_SASL = ("PLAINTEXT", "SSL", "mTLS")
LOGINS = (
    *WITHOUT_SASL,
    *(f"{protocol} {mechanism}" for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS),
)

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}


@dataclass(frozen=True)
class Login:
    """Where to log in, and with what. Each login uses the fields that its mechanism needs."""

    servers: str
    principal: str  # whom the broker takes the client for
    protocol: str
    mechanism: str = ""
    ca_file: str = ""
    certificate_file: str = ""  # with its key
    username: str = ""
    password: str = ""
    token_url: str = ""
    token: str = ""
    service_name: str = ""
    keytab: str = ""

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")


def settings_of(client: str, login: Login) -> dict[str, str]:
    """By the names that the client has for them."""
    match client:
        case "confluent" | "kcat":
            return _present(_for_librdkafka(login))
        case "java":
            return _present(_for_java(login))
        case "kafka-python":
            return _present(_for_kafka_python(login))
        case "aiokafka":
            return _present(_for_aiokafka(login))
    raise ValueError(f"no settings for {client}")


def _for_librdkafka(login: Login) -> Mapping[str, str]:
    settings = {
        "security.protocol": login.protocol,
        "ssl.ca.location": login.ca_file,
        "ssl.certificate.location": login.certificate_file,
        "ssl.key.location": login.certificate_file,
        "sasl.mechanism": login.mechanism,
        "sasl.username": login.username,
        "sasl.password": login.password,
    }
    if login.mechanism == "OAUTHBEARER":
        settings |= {
            "sasl.username": "",
            "sasl.password": "",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": login.token_url,
            "sasl.oauthbearer.client.id": login.username,
            "sasl.oauthbearer.client.secret": login.password,
        }
    elif login.mechanism == "GSSAPI":
        settings |= {
            "sasl.kerberos.service.name": login.service_name,
            "sasl.kerberos.principal": login.username,
            "sasl.kerberos.keytab": login.keytab,
        }
    return settings


def _for_java(login: Login) -> Mapping[str, str]:
    settings = {"security.protocol": login.protocol, "sasl.mechanism": login.mechanism}
    if login.ca_file:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": login.ca_file}
    if login.certificate_file:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": login.certificate_file}
    options = {"username": login.username, "password": login.password}
    if login.mechanism == "OAUTHBEARER":
        options = {"clientId": login.username, "clientSecret": login.password, "scope": "kafka"}
        settings |= {
            "sasl.oauthbearer.token.endpoint.url": login.token_url,
            "sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
        }
    elif login.mechanism == "GSSAPI":
        settings["sasl.kerberos.service.name"] = login.service_name
        options = {
            "useKeyTab": "true",
            "storeKey": "true",
            "keyTab": login.keytab,
            "principal": login.username,
        }
    if login.uses_sasl:
        listed = " ".join(f'{name}="{value}"' for name, value in options.items())
        settings["sasl.jaas.config"] = f"{_MODULES[login.mechanism]} required {listed};"
    return settings


def _for_kafka_python(login: Login) -> Mapping[str, str]:
    return {
        "ssl_cafile": login.ca_file,
        "ssl_certfile": login.certificate_file,
        "ssl_keyfile": login.certificate_file,
        **_in_python(login),
    }


def _for_aiokafka(login: Login) -> Mapping[str, str]:
    # Its parameter is a context of TLS, which the agent makes of these.
    return {
        "cafile": login.ca_file,
        "certfile": login.certificate_file,
        "sasl_kerberos_domain_name": "localhost" if login.mechanism == "GSSAPI" else "",
        **_in_python(login),
    }


def _in_python(login: Login) -> Mapping[str, str]:
    # The user of GSSAPI is whose ticket there is, and a token names its own.
    has_password = login.mechanism not in ("GSSAPI", "OAUTHBEARER")
    return {
        "security_protocol": login.protocol,
        "sasl_mechanism": login.mechanism,
        "sasl_plain_username": login.username if has_password else "",
        "sasl_plain_password": login.password if has_password else "",
        "sasl_kerberos_service_name": login.service_name,
        "sasl_oauth_token_provider": login.token,  # the agent makes an object of it
    }


def _present(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if value}
