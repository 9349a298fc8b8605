"""Secrets in configs: plain passwords, and values of config providers, which only a running connector knows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from ottla.client.errors import ClientError
from ottla.connect.config.config_def import ConfigDef, ConfigType
from ottla.connect.plugins import load_class
from ottla.connect.worker.validation.definitions import HIDDEN

#: Shorter values occur inside words, and hiding them would garble the text.
_SHORTEST = 4

_SECRET_NAME = re.compile(
    r"passw|passphrase|secret|token|credential|jaas|private|api[._-]?key|access[._-]?key|user\.info|authorization",
    re.IGNORECASE,
)
_SECRET_IN_URL = re.compile(r"[?&;]\w*(passw|token|secret|key)\w*=", re.IGNORECASE)


def masked(config: Mapping[str, str]) -> dict[str, str]:
    """Mask the secrets in a config. Provider variables are no secret and stay."""
    definition = _definition(config)
    return {
        name: HIDDEN if value and _is_secret(name, value, definition) else value
        for name, value in config.items()
    }


def _definition(config: Mapping[str, str]) -> ConfigDef | None:
    try:
        found = getattr(load_class(config.get("connector.class", "")), "config_def", None)
    except ClientError:
        return None
    return found if isinstance(found, ConfigDef) else None


def _is_secret(name: str, value: str, definition: ConfigDef | None) -> bool:
    if value.startswith("${") and value.endswith("}") and value.count("}") == 1:
        return False
    key = definition.keys.get(name) if definition is not None else None
    if _SECRET_NAME.search(name) or (key is not None and key.type is ConfigType.PASSWORD):
        return True
    if "://" not in value and not value.startswith("jdbc:"):
        return False
    try:
        has_login = any("@" in urlsplit(each.removeprefix("jdbc:")).netloc for each in value.split(","))
    except ValueError:
        return True
    return has_login or _SECRET_IN_URL.search(value) is not None


class Secrets:
    """The resolved variables of one config."""

    def __init__(self, config: Mapping[str, str], resolved: Mapping[str, str]) -> None:
        found = {
            value: config[name]
            for name, value in resolved.items()
            if value and name in config and config[name] != value
        }
        # A value that contains another comes first.
        self._variables = dict(sorted(found.items(), key=lambda each: -len(each[0])))

    def hidden_in(self, configs: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
        """Replace resolved values in task configs with their variables."""
        return [
            {name: self._variables.get(value, value) for name, value in config.items()} for config in configs
        ]

    def hidden(self, text: str | None) -> str | None:
        """Replace resolved values in a trace, which may quote a server's message about a password."""
        if text is None:
            return None
        for value, variable in self._variables.items():
            if len(value) >= _SHORTEST:
                text = text.replace(value, variable)
        return text
