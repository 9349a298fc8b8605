"""System properties given to Kafka in KAFKA_OPTS: `-Djava.security.auth.login.config=/etc/kafka/jaas.conf`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

ENVIRONMENT_VARIABLE = "KAFKA_OPTS"
JAAS_FILE = "java.security.auth.login.config"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
KERBEROS_CONFIG = "java.security.krb5.conf"


def system_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the Java system properties. Arguments not of the form -Dname=value are ignored."""
    text = environment.get(ENVIRONMENT_VARIABLE, "")
    try:
        words = shlex.split(text)
    except ValueError:  # unbalanced quotes
        words = text.split()
    return {
        name: value for word in words if word.startswith("-D") for name, _, value in [word[2:].partition("=")]
    }


def allowed_urls(listed: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in (listed or "").split(",") if each.strip())
