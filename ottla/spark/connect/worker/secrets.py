"""Values of config providers: known to a connector that runs, and written back as `${…}` everywhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: Shorter values are parts of words, and hiding them would spoil the rest of a text.
_SHORTEST = 4


class Secrets:
    """What was looked up for one config."""

    def __init__(self, config: Mapping[str, str], resolved: Mapping[str, str]) -> None:
        found = {
            value: config[name]
            for name, value in resolved.items()
            if value and name in config and config[name] != value
        }
        # One that contains another comes first.
        self._variables = dict(sorted(found.items(), key=lambda each: -len(each[0])))

    def hidden_in(self, configs: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
        """Configs of tasks, which a connector makes of its own, with the variables in place of their values."""
        return [
            {name: self._variables.get(value, value) for name, value in config.items()} for config in configs
        ]

    def hidden(self, text: str | None) -> str | None:
        """A trace may quote what a server has said of a password."""
        if text is None:
            return None
        for value, variable in self._variables.items():
            if len(value) >= _SHORTEST:
                text = text.replace(value, variable)
        return text
