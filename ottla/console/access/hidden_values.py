"""Secrets in settings: values to hide on pages, and hidden values to restore from forms."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

HIDDEN = "•••"

#: Settings with such names hold secrets, regardless of their definition.
_SECRET_NAME = re.compile(
    r"passw(or)?d|passphrase|pwd|secret|token|credential|jaas|private|authorization|user\.?info|cookie"
    r"|(api|access|account|shared|license|encryption|signing)[._-]?key|connection[._-]?string|headers?(\.additional)?$",
    re.IGNORECASE,
)
#: Values of these types cannot be secrets.
_PLAIN_TYPES = frozenset({"BOOLEAN", "SHORT", "INT", "LONG", "DOUBLE", "CLASS"})
_NUMBERS = frozenset({"SHORT", "INT", "LONG", "DOUBLE"})
#: A reference to a config provider is not itself a secret.
_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_WORDS = (
    r"[\w.-]*(?:passw(?:or)?d|pwd|passphrase|secret|token|credentials?|signature|sig"
    r"|(?:api|access|account|shared_?access|private)_?key)"
)
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^&;,\s\"']+)"
_LOGINS = (
    re.compile(r"(://)[^\s/?#]*(?=@)"),
    re.compile(r"(://)[^\s/:@]+:(?!\d+(?:[/,?#]|$))[^\s@]+(?=@)"),  # slash in the password
    re.compile(r"(:(?:thin|oci):)[^\s/@]+/[^\s@]+(?=@)", re.IGNORECASE),  # Oracle
    re.compile(rf"((?:^|[?&;,\s(]){_WORDS}\s*=\s*){_VALUE}", re.IGNORECASE),
    re.compile(rf"([\"']{_WORDS}[\"']\s*:\s*){_VALUE}", re.IGNORECASE),  # JSON
    re.compile(r"([?&;](?:user|username|login)=)[^&;,\s]+", re.IGNORECASE),
)
#: Settings that do not affect the connector's target.
_HARMLESS = re.compile(
    r"name|tasks\.max|topics?|topics\.regex|topic\.prefix|transforms.*|predicates.*|errors\.(?!deadletterqueue).*"
    r"|file|path|mode|query|.*\.(format|fields?|columns?|mode|interval|case|separator|delimiter|encoding)"
    r"|(table|column|topic|schema|database|collection|index|pk|fields?|insert|delete|auto|batch|flush|poll|max|min|retry"
    r"|timestamp|incrementing|partition|snapshot|value\.converter\.schemas|key\.converter\.schemas)[._].*",
    re.IGNORECASE,
)
_PLACE = re.compile(r"://|@|(host|server|endpoint|source)\s*=", re.IGNORECASE)
#: Secrets that also name a server.
_SECRET_PLACE = re.compile(r"connection|url|uri|jaas", re.IGNORECASE)
_SHORTEST_SECRET = 4


def without_logins(text: str) -> str:
    for pattern in _LOGINS:
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return text


class ConnectorConfig:
    """A connector's config, with the types of its settings as far as the worker knows them."""

    def __init__(self, values: Mapping[str, str], types: Mapping[str, str]) -> None:
        self.values = values
        self._types = types

    def is_secret(self, key: str) -> bool:
        kind = self._types.get(key, "").upper()
        return kind == "PASSWORD" or (kind not in _PLAIN_TYPES and _SECRET_NAME.search(key) is not None)

    def shown(self) -> dict[str, str]:
        return {key: self._shown(key, value) for key, value in sorted(self.values.items())}

    def _shown(self, key: str, value: Any) -> str:
        text = "" if value is None else str(value)
        if _REFERENCE.fullmatch(text):
            return text
        return HIDDEN if text and self.is_secret(key) else without_logins(text)

    def scrubbed(self, text: str) -> str:
        """Remove this config's secrets from a message of the worker, such as a task's trace."""
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return without_logins(text)

    def _secrets(self) -> Iterable[str]:
        for key, value in self.values.items():
            text = str(value)
            if self.is_secret(key) and len(text) >= _SHORTEST_SECRET and not _REFERENCE.fullmatch(text):
                yield text

    def completed(self, given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """Restore hidden values in a submitted form. Also return the settings that have to be entered again.

        A hidden value stays only if the connector keeps talking to the same servers in the same way. Otherwise an
        editor could send the password to another server.
        """
        hidden = [key for key, value in given.items() if HIDDEN in value]
        shown = self.shown()
        kept = {key for key in hidden if given[key] == shown.get(key)}
        moved = self.moved({key: given[key] for key in given.keys() - kept}, kept)
        again = sorted(set(hidden) - kept) if not moved else sorted(hidden)
        whole = {
            key: str(self.values[key]) if key in kept and not moved else value for key, value in given.items()
        }
        return whole, again

    def moved(self, given: Mapping[str, str], kept: Collection[str]) -> list[str]:
        """Return the changed settings that may affect the connector's target."""
        others = (given.keys() | self.values.keys()) - set(kept)
        return sorted(
            key
            for key in others
            if given.get(key) != self.values.get(key) and not self._is_harmless(key, given.get(key, ""))
        )

    def _is_harmless(self, key: str, value: str) -> bool:
        if self._types.get(key, "").upper() in _NUMBERS and "port" not in key.lower():
            return True
        if self.is_secret(key):
            return _SECRET_PLACE.search(key) is None and _PLACE.search(value) is None
        return _HARMLESS.fullmatch(key) is not None and _PLACE.search(value) is None
