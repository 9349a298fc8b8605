"""Patterns that consumers subscribe with, matched against whole topic names in time that grows only linearly.

Kafka uses RE2. Python's `re` reads nearly the same notation but may need exponential time, and one slow pattern
would stop the broker. So a pattern is only parsed by `re`; its tree is turned into a nondeterministic automaton,
which is run with all its states at once. What RE2 does not have (look-around, back references, possessive
repetition) is refused; what Python does not have (classes such as `[[:alpha:]]` or `\\pL`) is refused as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

from ottla.protocol.errors import ErrorCode, KafkaError

# Repetitions are written out, so a short pattern can become a large automaton. RE2 has such a limit too.
_MOST_STATES = 4_000
# Built as topic names ask for it; emptied when it has grown this far.
_MOST_STEPS = 20_000

Test = Callable[[str], bool]


class TopicRegex:
    """One pattern. `KafkaError(INVALID_REGULAR_EXPRESSION)` if it is none."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        # Per state: the test that a character must pass to get to `_next`, or None for a free move.
        self._tests: list[Test | None] = []
        self._next: list[list[int]] = []
        try:
            tree = re._parser.parse(pattern)  # type: ignore[attr-defined]
            if tree.state.flags & re.IGNORECASE:
                raise _Unsupported("flags are not supported")
            self._end = self._state(None)
            self._start = self._sequence(tree, self._end)
        except (re.error, _Unsupported, OverflowError, RecursionError) as error:
            raise KafkaError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
            ) from None
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._first = self._closure({self._start})

    def matches(self, name: str) -> bool:
        states = self._first
        for character in name:
            step = (states, character)
            following = self._steps.get(step)
            if following is None:
                following = self._advance(states, character)
                if len(self._steps) >= _MOST_STEPS:
                    self._steps.clear()
                self._steps[step] = following
            if not following:
                return False
            states = following
        return self._end in states

    def matching(self, names: Collection[str]) -> frozenset[str]:
        return frozenset(name for name in names if self.matches(name))

    def _advance(self, states: frozenset[int], character: str) -> frozenset[int]:
        reached: set[int] = set()
        for state in states:
            test = self._tests[state]
            if test is not None and test(character):
                reached.update(self._next[state])
        return self._closure(reached)

    def _closure(self, states: set[int]) -> frozenset[int]:
        found = set(states)
        pending = list(states)
        while pending:
            state = pending.pop()
            if self._tests[state] is None:
                fresh = [following for following in self._next[state] if following not in found]
                found.update(fresh)
                pending += fresh
        return frozenset(found)

    # Building, from the end to the start: each part is told where to go on and returns where it begins

    def _state(self, test: Test | None, *following: int) -> int:
        if len(self._tests) >= _MOST_STATES:
            raise _Unsupported("it is too large")
        self._tests.append(test)
        self._next.append(list(following))
        return len(self._tests) - 1

    def _sequence(self, tree: Any, end: int) -> int:
        for operation, argument in reversed(list(tree)):
            end = self._part(str(operation), argument, end)
        return end

    def _part(self, operation: str, argument: Any, end: int) -> int:
        if operation == "BRANCH":
            return self._state(None, *[self._sequence(branch, end) for branch in argument[1]])
        if operation == "SUBPATTERN":
            _, added, removed, tree = argument
            if added or removed:
                raise _Unsupported("flags are not supported")
            return self._sequence(tree, end)
        if operation in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, tree = argument
            return self._repeat(least, most, tree, end)
        if operation == "AT":
            # Names are matched as a whole, so anchors at the ends say nothing new.
            if str(argument) not in ("AT_BEGINNING", "AT_BEGINNING_STRING", "AT_END", "AT_END_STRING"):
                raise _Unsupported("only ^ and $ are supported as anchors")
            return end
        return self._state(_test(operation, argument), end)

    def _repeat(self, least: int, most: Any, tree: Any, end: int) -> int:
        if int(most) == int(re._constants.MAXREPEAT):  # type: ignore[attr-defined]
            loop = self._state(None, end)
            self._next[loop].append(self._sequence(tree, loop))
            end = loop
        else:
            start = end
            for _ in range(int(most) - least):
                start = self._state(None, end, self._sequence(tree, start))
            end = start
        for _ in range(least):
            end = self._sequence(tree, end)
        return end


class _Unsupported(Exception):
    pass


def _test(operation: str, argument: Any) -> Test:
    if operation == "LITERAL":
        wanted = chr(argument)
        return lambda character: character == wanted
    if operation == "NOT_LITERAL":
        unwanted = chr(argument)
        return lambda character: character != unwanted
    if operation == "ANY":
        return lambda character: character != "\n"
    if operation == "IN":
        return _class(argument)
    raise _Unsupported(f"{operation.lower().replace('_', ' ')} is not supported")


def _class(items: Any) -> Test:
    negated = False
    tests: list[Test] = []
    for operation, argument in items:
        name = str(operation)
        if name == "NEGATE":
            negated = True
        elif name == "RANGE":
            low, high = argument
            tests.append(lambda character, low=low, high=high: low <= ord(character) <= high)  # type: ignore[misc]
        elif name == "CATEGORY":
            tests.append(_category(str(argument)))
        else:
            tests.append(_test(name, argument))
    if negated:
        return lambda character: not any(test(character) for test in tests)
    return lambda character: any(test(character) for test in tests)


def _category(name: str) -> Test:
    kind = name.removeprefix("CATEGORY_").removeprefix("NOT_")
    matcher = {"DIGIT": r"[0-9]", "SPACE": r"[\t\n\f\r ]", "WORD": r"[0-9A-Za-z_]"}.get(kind)
    if matcher is None:
        raise _Unsupported(f"the class {kind.lower()} is not supported")
    compiled = re.compile(matcher)
    if "NOT_" in name:
        return lambda character: compiled.match(character) is None
    return lambda character: compiled.match(character) is not None


@lru_cache(maxsize=256)
def topic_regex(pattern: str) -> TopicRegex:
    return TopicRegex(pattern)
