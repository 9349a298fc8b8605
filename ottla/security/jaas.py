"""JAAS: login modules in files and settings, and system properties in KAFKA_OPTS."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

# System properties given to Kafka in KAFKA_OPTS: `-Djava.security.auth.login.config=/etc/kafka/jaas.conf`.

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


# JAAS configurations: login modules and their options.
#
# A setting has one entry, a file has sections of entries:
#
#     org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" user_ann="secret";
#
# Only Kafka's own login modules are supported, and other class names are never loaded. A file may name other classes in
# sections that are not Kafka's.

_PACKAGE = "org.apache.kafka.common.security"
# Login module → mechanisms that it serves.
_MODULES = {
    f"{_PACKAGE}.plain.PlainLoginModule": ("PLAIN",),
    f"{_PACKAGE}.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
    "com.sun.security.auth.module.Krb5LoginModule": ("GSSAPI",),
}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""(?:\s|//[^\n]*|\#[^\n]*|/\*.*?\*/)*
    (?:(?P<quoted>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<sign>[{};=])|(?P<word>[^\s{};="']+)|(?P<end>\Z))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class BadJaas(Exception):
    """A malformed configuration. The message omits the options, because they are secrets."""


class LoginModule(NamedTuple):
    name: str
    options: dict[str, str]

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return _MODULES.get(self.name, ())

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r}, options of {sorted(self.options)})"

    def users(self) -> dict[str, str]:
        """Return the users of a PLAIN listener: `user_ann="secret"`."""
        prefix = "user_"
        return {name[len(prefix) :]: word for name, word in self.options.items() if name.startswith(prefix)}


def parse_entry(text: str) -> LoginModule:
    """Parse a `sasl.jaas.config` setting: exactly one login module."""
    tokens = _Tokens(text)
    module = _known(_module(tokens))
    if not tokens.at_end:
        raise BadJaas("there is more than one login module")
    return module


def server_section(sections: dict[str, list[LoginModule]], listener: str) -> list[LoginModule] | None:
    for name in (f"{listener.lower()}.KafkaServer", "KafkaServer"):
        if name in sections:
            return [_known(module) for module in sections[name]]
    return None


def parse_file(text: str) -> dict[str, list[LoginModule]]:
    tokens = _Tokens(text)
    sections: dict[str, list[LoginModule]] = {}
    while not tokens.at_end:
        name = tokens.word("the name of a section")
        tokens.sign("{")
        found = []
        while not tokens.is_sign("}"):
            found.append(_module(tokens))
        tokens.sign("}")
        tokens.sign(";")
        if name in sections:
            raise BadJaas(f"section {name} is there twice")
        sections[name] = found
    return sections


def _known(module: LoginModule) -> LoginModule:
    if module.name not in _MODULES:
        known = ", ".join(each.rpartition(".")[2] for each in _MODULES)
        raise BadJaas(f"the login module {module.name} is not known; there are {known}")
    return module


def _module(tokens: _Tokens) -> LoginModule:
    name = tokens.word("a login module")
    flag = tokens.word("'required' after the login module")
    if flag.lower() not in _FLAGS:
        raise BadJaas("after the login module 'required' is expected")
    options: dict[str, str] = {}
    while not tokens.is_sign(";"):
        key = tokens.word("an option, or ';' at the end")
        tokens.sign("=")
        options[key] = tokens.word(f"the value of {key}", may_be_quoted=True)
    tokens.sign(";")
    return LoginModule(name, options)


class _Tokens:
    def __init__(self, text: str) -> None:
        self._tokens = self._split(text)
        self._next = next(self._tokens)

    @property
    def at_end(self) -> bool:
        return self._next == ("end", "")

    def is_sign(self, sign: str) -> bool:
        return self._next == ("sign", sign)

    def sign(self, sign: str) -> None:
        if not self.is_sign(sign):
            raise BadJaas(f"'{sign}' is missing" + (" at the end" if self.at_end else ""))
        self._advance()

    def word(self, what: str, *, may_be_quoted: bool = False) -> str:
        kind, text = self._next
        if kind != "word" and not (may_be_quoted and kind == "quoted"):
            raise BadJaas(f"{what} is missing")
        self._advance()
        if kind == "quoted":
            return re.sub(
                r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1], flags=re.DOTALL
            )
        return text

    def _advance(self) -> None:
        if not self.at_end:
            self._next = next(self._tokens)

    @staticmethod
    def _split(text: str) -> Iterator[tuple[str, str]]:
        position = 0
        while True:
            found = _TOKEN.match(text, position)
            if found is None:
                raise BadJaas("a quotation mark is missing")
            position = found.end()
            kind = found.lastgroup or "end"
            yield kind, found[kind]
            if kind == "end":
                return
