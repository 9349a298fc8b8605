"""Options from Spark: names, single values, and the connection to the cluster.

`source/source_options.py` and `sink/sink_options.py` define the options for reading and writing.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from ottla.client.connection import MECHANISMS
from ottla.client.errors import ClientError
from ottla.client.settings import Settings

T = TypeVar("T")

_BOOLEANS = {"true": True, "false": False}

# fmt: off
#: Options for authentication and encryption, shared by reading and writing.
SECURITY_OPTIONS = (
    "enable.ssl.certificate.verification", "https.ca.location", "sasl.jaas.config", "sasl.kerberos.keytab",
    "sasl.kerberos.principal", "sasl.kerberos.service.name", "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.method", "sasl.oauthbearer.scope", "sasl.oauthbearer.token",
    "sasl.oauthbearer.token.endpoint.url", "sasl.password", "sasl.username", "security.protocol", "ssl.ca.location",
    "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.cipher.suites", "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm", "ssl.key.location", "ssl.key.password", "ssl.key.pem",
    "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password",
    "ssl.keystore.type", "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password",
    "ssl.truststore.type",
)
# fmt: on


class OptionError(ClientError):
    """Options are unknown, contradictory or meaningless here."""


class KnownOptions(NamedTuple):
    """All known options of reading or writing. Misspelt options are refused instead of ignored."""

    names: tuple[str, ...]
    #: Supported Kafka client options, without the prefix `kafka.`.
    kafka: tuple[str, ...]
    #: Options of the Java client without effect here: accepted and ignored.
    without_effect: tuple[str, ...]
    #: Refused options, with the replacement.
    refused: Mapping[str, str]
    no_path: str
    purpose: str = ""

    def check(self, given: Mapping[str, str]) -> None:
        """Refuse unknown options. Names in `given` are lower case, as Spark passes them."""
        spelling = {name.lower(): name for name in self.names}
        for name in sorted(given):
            if name in spelling:
                continue
            if name == "path":
                raise OptionError(self.no_path)
            if name.startswith("kafka."):
                kafka = name.removeprefix("kafka.")
                if kafka in self.kafka or kafka in self.without_effect:
                    continue
                if kafka in self.refused:
                    raise OptionError(f"Option '{name}' cannot be used: {self.refused[kafka]}.")
                if kafka.startswith("sasl."):
                    raise OptionError(
                        f"Option '{name}' cannot be used: it is not one of those that are understood of SASL."
                    )
            known = [*spelling, *(f"kafka.{each}" for each in self.kafka)]
            close = difflib.get_close_matches(name, known, n=1)
            guess = f" Did you mean '{spelling.get(close[0], close[0])}'?" if close else ""
            raise OptionError(f"There is no option '{name}'{self.purpose}.{guess}")


class Options:
    """Case-insensitive access to options. Invalid values raise an OptionError with the name of the option."""

    def __init__(self, options: Mapping[str, str], known: KnownOptions) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        known.check(self._values)

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def choice(self, name: str, choices: Mapping[str, T], default: T) -> T:
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in choices:
            *most, last = choices
            raise OptionError(f"{name} must be {', '.join(most)} or {last}, not '{text}'.")
        return choices[text.strip().lower()]

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, _BOOLEANS, default)

    def count(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not text.strip().isdigit() or int(text) == 0:
            raise OptionError(f"{name} must be a whole number above 0, not '{text}'.")
        return int(text)

    def seconds(self, name: str, default_ms: int) -> float:
        return (self.count(name) or default_ms) / 1000

    def client_settings(self) -> Settings:
        """Return the connection settings from options with the prefix `kafka.`."""
        properties = {
            name.removeprefix("kafka."): value
            for name, value in self._values.items()
            if name.startswith("kafka.")
        }
        if not properties.get("bootstrap.servers", "").strip():
            raise OptionError("Option 'kafka.bootstrap.servers' is missing: where is the broker?")
        try:
            settings = Settings.from_properties(properties, client_id="ottla-spark")
        except ClientError as error:
            raise OptionError(error.message) from None
        sasl = settings.sasl
        if sasl is not None and sasl.mechanism not in MECHANISMS:
            *most, last = MECHANISMS
            raise OptionError(
                f"kafka.sasl.mechanism must be {', '.join(most)} or {last}, not '{sasl.mechanism}'."
            )
        if sasl is not None and not sasl.username and sasl.oauth is None and sasl.kerberos is None:
            raise OptionError(
                "The login is missing. Set kafka.sasl.username and kafka.sasl.password, or kafka.sasl.jaas.config."
            )
        return settings
