"""Patterns that consumers subscribe with, matched against whole topic names in time that grows only linearly.

Kafka uses RE2. Python's `re` may need exponential time, and one slow pattern would stop the broker. So a pattern is
parsed by `re2_parser`; its tree is turned into a nondeterministic automaton, which is run with all its states at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache

from ottla.coordinator.groups.consumer.re2_parser import (
    Beside,
    Either,
    One,
    Place,
    RegexError,
    Repeated,
    Several,
    Tree,
    beside,
    parse,
)
from ottla.protocol.errors import ErrorCode, KafkaError

# Repetitions are written out, so a short pattern can become a large automaton. RE2 has such a limit too.
_MOST_STATES = 4_000
# Built as topic names ask for it; emptied when it has grown this far.
_MOST_STEPS = 20_000

States = frozenset[int]


class TopicRegex:
    """One pattern. `KafkaError(INVALID_REGULAR_EXPRESSION)` if it is none."""

    def __init__(self, pattern: str) -> None:
        # Per state: what a character must pass, or a place, to get to `_next`; nothing for a free move.
        self._characters: list[Callable[[str], bool] | None] = []
        self._places: list[Callable[[Beside, Beside], bool] | None] = []
        self._next: list[list[int]] = []
        try:
            tree = parse(pattern)
            self._end = self._state()
            self._first = frozenset({self._build(tree, self._end)})
        except RegexError as error:
            raise KafkaError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
            ) from None
        self._steps: dict[tuple[States, Beside, str], States] = {}

    def matches(self, name: str) -> bool:
        states, before = self._first, Beside.NOTHING
        for character in name:
            step = (states, before, character)
            following = self._steps.get(step)
            if following is None:
                following = self._advance(states, before, character)
                if len(self._steps) >= _MOST_STEPS:
                    self._steps.clear()
                self._steps[step] = following
            if not following:
                return False
            states, before = following, beside(character)
        return self._end in self._closure(states, before, Beside.NOTHING)

    def matching(self, names: Collection[str]) -> frozenset[str]:
        return frozenset(name for name in names if self.matches(name))

    def _advance(self, states: States, before: Beside, character: str) -> States:
        reached: set[int] = set()
        for state in self._closure(states, before, beside(character)):
            test = self._characters[state]
            if test is not None and test(character):
                reached.update(self._next[state])
        return frozenset(reached)

    def _closure(self, states: States, before: Beside, after: Beside) -> set[int]:
        """All that can be reached without a character, at a place between these two."""
        found = set(states)
        pending = list(states)
        while pending:
            state = pending.pop()
            place = self._places[state]
            if self._characters[state] is None and (place is None or place(before, after)):
                fresh = [following for following in self._next[state] if following not in found]
                found.update(fresh)
                pending += fresh
        return found

    # Building, from the end to the start: each part is told where to go on and returns where it begins

    def _state(
        self,
        *following: int,
        character: Callable[[str], bool] | None = None,
        place: Callable[[Beside, Beside], bool] | None = None,
    ) -> int:
        if len(self._next) >= _MOST_STATES:
            raise RegexError("expression too large")
        self._characters.append(character)
        self._places.append(place)
        self._next.append(list(following))
        return len(self._next) - 1

    def _build(self, tree: Tree, end: int) -> int:
        match tree:
            case One(test):
                return self._state(end, character=test)
            case Place(holds):
                return self._state(end, place=holds)
            case Several(parts):
                for part in reversed(parts):
                    end = self._build(part, end)
                return end
            case Either(branches):
                return self._state(*[self._build(branch, end) for branch in branches])
            case Repeated(part, least, most):
                return self._repeat(part, least, most, end)

    def _repeat(self, part: Tree, least: int, most: int | None, end: int) -> int:
        if most is None:
            loop = self._state(end)
            self._next[loop].append(self._build(part, loop))
            start = loop
        else:
            start = end
            for _ in range(most - least):
                start = self._state(end, self._build(part, start))
        for _ in range(least):
            start = self._build(part, start)
        return start


@lru_cache(maxsize=256)
def topic_regex(pattern: str) -> TopicRegex:
    return TopicRegex(pattern)
