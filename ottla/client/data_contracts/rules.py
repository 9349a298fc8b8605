"""Rules of a schema for writers and readers: conditions in the supported subset of CEL.

Other rule types and expressions cannot be executed here. Writes are then refused, because a rule may exist to encrypt a
field; a reader continues without it.
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
    """A record violates a rule, or a rule cannot be executed."""


@dataclass(frozen=True)
class _Rule:
    name: str
    condition: Evaluate | None
    #: Reason for a missing condition.
    reason: str = ""


class Rules:
    """Rules of one schema in one direction."""

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
        """Raises RuleFailed if the record violates a rule."""
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
    given = json.loads(rule_set) if rule_set else {}
    for kind in _KINDS:
        for rule in given.get(kind) or ():
            mode = str(rule.get("mode") or "WRITE").upper()
            if rule.get("disabled") or mode not in (direction, "WRITEREAD"):
                continue
            if _action(rule, direction, mode) != "NONE":
                yield rule


def _action(rule: Mapping[str, Any], direction: Direction, mode: str) -> str:
    """Return the failure action. onFailure may name two, for writing and reading. DLQ is an error here, like ERROR."""
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
