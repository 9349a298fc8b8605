"""SET and UNSET."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from ottla.client.schema_registry import PREFIX as REGISTRY
from ottla.sql.errors import Position, SqlError

SCAN = "ksql.query.pull.table.scan.enabled"

WRAPS = "ksql.persistence.wrap.single.values"
TOPIC_PREFIX = "ksql.output.topic.name.prefix"

#: name → default and allowed values (None means a count, and no values any text)
KNOWN: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "auto.offset.reset": ("latest", ("earliest", "latest")),
    # Maximum records per micro-batch. Without it, a micro-batch takes all available records.
    "ottla.max.offsets.per.trigger": ("", None),
    # WRAP_SINGLE_VALUE and the topic names of statements that do not say them.
    WRAPS: ("", ("true", "false")),
    TOPIC_PREFIX: ("", ()),
    # Whether a pull query may read a whole table.
    SCAN: ("true", ("true", "false")),
    "processing.guarantee": ("exactly_once_v2", ("exactly_once_v2", "exactly_once", "at_least_once")),
}
_PREFIX = "ksql.streams."
_URL = "ksql.schema.registry.url"
#: Properties with these words are hidden.
_SECRET = ("password", "token", "user.info", "key")


def registry_properties(given: str | Mapping[str, str] | None) -> dict[str, str]:
    """Accept a URL, or properties with or without the prefix `ksql.`."""
    if given is None:
        return {}
    if isinstance(given, str):
        return {f"{REGISTRY}url": given}
    plain = {name.removeprefix("ksql."): value for name, value in given.items()}
    return {name: value for name, value in plain.items() if name.startswith(REGISTRY)}


class SessionProperties:
    """Properties of a session. `registry` is the default for `schema.registry.…`.

    Clients of a server cannot set the registry: the server would send requests to any host that they name.
    """

    def __init__(
        self,
        registry: Mapping[str, str] | None = None,
        *,
        fixed_registry: bool = False,
        defaults: Mapping[str, str] | None = None,
    ) -> None:
        self._set: dict[str, str] = {}
        self._defaults = dict(defaults or {})
        self._registry = dict(registry or {})
        self._registry_set: dict[str, str] = {}
        self._is_registry_fixed = fixed_registry

    def registry(self) -> dict[str, str]:
        if f"{REGISTRY}url" in self._registry_set:
            return dict(self._registry_set)  # do not send one registry's login to another
        return {**self._registry, **self._registry_set}

    def get(self, name: str) -> str:
        return self._set.get(name, self._default(name))

    def _default(self, name: str) -> str:
        return self._defaults.get(name, KNOWN[name][0])

    def set(self, name: str, value: str, position: Position) -> None:
        if name.removeprefix("ksql.").startswith(REGISTRY):
            if self._is_registry_fixed:
                raise SqlError(f"{name} is a setting of the server, and not of a session.", position)
            self._registry_set[name.removeprefix("ksql.")] = value
            return
        name = self._known(name, position)
        allowed = KNOWN[name][1]
        if allowed and value not in allowed:
            raise SqlError(f"{name} is {' or '.join(allowed)}, not '{value}'.", position)
        if allowed is None and not (value.isascii() and value.isdigit() and int(value) > 0):
            raise SqlError(f"{name} is a positive number, not '{value}'.", position)
        self._set[name] = value

    def unset(self, name: str, position: Position) -> None:
        if name.removeprefix("ksql.").startswith(REGISTRY):
            self._registry_set.pop(name.removeprefix("ksql."), None)
            return
        self._set.pop(self._known(name, position), None)

    def rows(self) -> list[tuple[str, str, str]]:
        rows = [(name, self._default(name), self.get(name)) for name in sorted(KNOWN)]
        url = f"{REGISTRY}url"
        rows.append((_URL, _shown(self._registry.get(url, "")), _shown(self.registry().get(url, ""))))
        others = {name: value for name, value in self.registry().items() if name != url}
        for name, value in sorted(others.items()):
            shown = "[hidden]" if name.endswith(_SECRET) else value
            rows.append((f"ksql.{name}", "", shown))
        return sorted(rows)

    def _known(self, name: str, position: Position) -> str:
        plain = name.removeprefix(_PREFIX)
        if plain not in KNOWN:
            close = get_close_matches(plain, KNOWN, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"there is {', '.join(KNOWN)}."
            raise SqlError(f"The property '{name}' is not supported; {hint}", position)
        return plain


def _shown(urls: str) -> str:
    return re.sub(r"//[^/@,]*@", "//", urls)
