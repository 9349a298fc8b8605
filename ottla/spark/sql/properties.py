"""SET and UNSET."""

from __future__ import annotations

from difflib import get_close_matches

from ottla.spark.sql.errors import Position, SqlError

#: name → default, and what it may be (None is a count)
KNOWN: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "auto.offset.reset": ("latest", ("earliest", "latest")),
    # So many records a micro-batch takes at most; without it, all that there are.
    "ottla.max.offsets.per.trigger": ("", None),
    "processing.guarantee": ("exactly_once_v2", ("exactly_once_v2", "exactly_once", "at_least_once")),
}
_PREFIX = "ksql.streams."


class SessionProperties:
    def __init__(self) -> None:
        self._set: dict[str, str] = {}

    def get(self, name: str) -> str:
        return self._set.get(name, KNOWN[name][0])

    def set(self, name: str, value: str, position: Position) -> None:
        name = self._known(name, position)
        allowed = KNOWN[name][1]
        if allowed is not None and value not in allowed:
            raise SqlError(f"{name} is {' or '.join(allowed)}, not '{value}'.", position)
        if allowed is None and not (value.isascii() and value.isdigit() and int(value) > 0):
            raise SqlError(f"{name} is a positive number, not '{value}'.", position)
        self._set[name] = value

    def unset(self, name: str, position: Position) -> None:
        self._set.pop(self._known(name, position), None)

    def rows(self) -> list[tuple[str, str, str]]:
        return [(name, default, self.get(name)) for name, (default, _) in sorted(KNOWN.items())]

    def _known(self, name: str, position: Position) -> str:
        plain = name.removeprefix(_PREFIX)
        if plain not in KNOWN:
            close = get_close_matches(plain, KNOWN, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"there is {', '.join(KNOWN)}."
            raise SqlError(f"The property '{name}' is not supported; {hint}", position)
        return plain
