"""The ways to log in, and each client's settings for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
# SSL alone encrypts. With mTLS the client presents a certificate whose name is the user.
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
    """The address and credentials of a login. Each mechanism uses the fields it needs."""

    servers: str
    principal: str  # the principal that the broker assigns
    protocol: str
    mechanism: str = ""
    ca_file: str = ""
    certificate_file: str = ""  # including its key
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
    """Return the settings under the client's own names."""
    match client:
        case "confluent" | "kcat":
            return _present(_for_librdkafka(login))
        case "java" | "java-newest":
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
    # The client expects an SSL context, which the agent builds from these values.
    return {
        "cafile": login.ca_file,
        "certfile": login.certificate_file,
        "sasl_kerberos_domain_name": "localhost" if login.mechanism == "GSSAPI" else "",
        **_in_python(login),
    }


def _in_python(login: Login) -> Mapping[str, str]:
    # GSSAPI takes the user from the ticket, and a token names its own user.
    has_password = login.mechanism not in ("GSSAPI", "OAUTHBEARER")
    return {
        "security_protocol": login.protocol,
        "sasl_mechanism": login.mechanism,
        "sasl_plain_username": login.username if has_password else "",
        "sasl_plain_password": login.password if has_password else "",
        "sasl_kerberos_service_name": login.service_name,
        "sasl_oauth_token_provider": login.token,  # the agent wraps it in an object
    }


def _present(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if value}
