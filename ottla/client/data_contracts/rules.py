"""Rules of a schema that whoever writes and reads with it has to follow: conditions in CEL, as far as we know it.

A rule of another type, or with another expression, cannot be carried out here. Nothing is written then, because a
rule may be there to encrypt a field; a reader goes on without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ottla.client.data_contracts.cel import CelError, Evaluate, NotSupported, compile_expression

Direction = Literal["WRITE", "READ"]
_KINDS = ("domainRules", "encodingRules")


class RuleFailed(ValueError):
    """A record that does not keep a rule, or a rule that cannot be carried out."""


@dataclass(frozen=True)
class _Rule:
    name: str
    condition: Evaluate | None
    #: Why there is no condition.
    reason: str = ""


class Rules:
    """Those of one schema in one direction."""

    def __init__(self, rule_set: str, direction: Direction) -> None:
        self._direction = direction
        self._rules = [
            found
            for given in _applicable(rule_set, direction)
            if (found := _rule(given)) is not None and (found.condition is not None or direction == "WRITE")
        ]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def check(self, record: Any) -> None:
        """RuleFailed, if the record does not keep one of them."""
        for rule in self._rules:
            if rule.condition is None:
                raise RuleFailed(
                    f"Rule '{rule.name}' of the schema cannot be carried out here: {rule.reason}. "
                    "Its onFailure is not NONE, so nothing is written without it"
                )
            try:
                kept = rule.condition({"message": record})
            except CelError as error:
                raise RuleFailed(f"Rule '{rule.name}' of the schema fails: {error}") from None
            if kept is not True:
                raise RuleFailed(f"Rule '{rule.name}' of the schema is not kept")


def _applicable(rule_set: str, direction: Direction) -> Iterable[Mapping[str, Any]]:
    """Rules that are not disabled, are for this direction, and whose failure matters."""
    given = json.loads(rule_set) if rule_set else {}
    for kind in _KINDS:
        for rule in given.get(kind) or ():
            mode = str(rule.get("mode") or "WRITE").upper()
            if rule.get("disabled") or mode not in (direction, "WRITEREAD"):
                continue
            if _action(rule, direction, mode) != "NONE":
                yield rule


def _action(rule: Mapping[str, Any], direction: Direction, mode: str) -> str:
    """onFailure may have two actions, for writing and for reading. DLQ is an error here, as ERROR."""
    actions = str(rule.get("onFailure") or "ERROR").upper().split(",")
    return actions[-1 if mode == "WRITEREAD" and direction == "READ" else 0].strip()


def _rule(given: Mapping[str, Any]) -> _Rule | None:
    name = str(given.get("name") or "?")
    kind, form = str(given.get("kind") or "").upper(), str(given.get("type") or "").upper()
    if kind != "CONDITION" or form != "CEL":
        return _Rule(name, None, f"it is a {kind or 'rule'} of type {form}")
    try:
        return _Rule(name, compile_expression(str(given.get("expr") or "")))
    except NotSupported as error:
        return _Rule(name, None, f"its expression is not understood: {error}")
