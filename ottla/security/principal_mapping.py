"""Map certificate names to principals: `ssl.principal.mapping.rules`.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,DEFAULT

The first rule whose pattern matches the whole distinguished name decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|\Z)"
)


class BadMappingRules(Exception):
    """A malformed rule. The message names it."""


class NoRuleApplies(Exception):
    """No rule admits the name."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str  # with \\g<1> instead of Java's $1
    change: Callable[[str], str]


class PrincipalMapper:
    def __init__(self, rules: str = "DEFAULT") -> None:
        self._rules = _parse(rules)

    def name(self, distinguished_name: str) -> str:
        """Raises NoRuleApplies."""
        for rule in self._rules:
            if rule is None:
                return distinguished_name
            found = rule.pattern.fullmatch(distinguished_name)
            if found is not None:
                return rule.change(found.expand(rule.replacement))
        raise NoRuleApplies(f"No rule of ssl.principal.mapping.rules applies to {distinguished_name}.")


def _parse(rules: str) -> list[_Rule | None]:
    parsed: list[_Rule | None] = []
    position = 0
    while position < len(rules) or not parsed:
        found = _RULE.match(rules, position)
        if found is None:
            raise BadMappingRules(
                f"'{rules[position:].strip()}' is neither DEFAULT nor RULE:pattern/replacement/[LU]"
            )
        position = found.end()
        if found["default"]:
            parsed.append(None)
            continue
        try:
            pattern = re.compile(_unescaped(found["pattern"]))
        except re.error as error:
            raise BadMappingRules(f"'{found['pattern']}' is not a regular expression: {error}") from None
        replacement = _in_python(_unescaped(found["replacement"]))
        if any(int(number) > pattern.groups for number in re.findall(r"\\g<(\d+)>", replacement)):
            raise BadMappingRules(
                f"'{found['replacement']}' names a group that '{found['pattern']}' does not have"
            )
        change = {"L": str.lower, "U": str.upper}.get(found["case"], str)
        parsed.append(_Rule(pattern, replacement, change))
    return parsed


def _unescaped(text: str) -> str:
    return text.replace("\\/", "/")


def _in_python(replacement: str) -> str:
    return re.sub(r"\$(\d)", r"\\g<\1>", replacement.replace("\\", "\\\\"))
