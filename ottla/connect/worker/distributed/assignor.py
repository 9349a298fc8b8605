"""Which worker runs which connector: evenly, with as few moves as possible, and never on two at a time. Pure.

A connector moves in two rounds: in the first it is revoked from the worker that has it, which stops it and joins again;
in the second it is given to another. What a worker has is what it says when it joins, and that includes what it has not
yet stopped: so whatever one worker has is given to no other.

A worker that is gone may come back soon (a restart). For `scheduled.rebalance.max.delay.ms` its connectors wait for it;
they are given to others then, or as soon as there are as many workers as before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Round:
    """What each member should have, what it has to give up, and after how many seconds to join again (0: never)."""

    assigned: dict[str, set[str]]
    revoked: dict[str, set[str]]
    delay: float = 0.0


@dataclass
class Assignor:
    """The memory of the member that leads. It is void when another has led meanwhile."""

    max_delay: float
    _generation: int = -1
    #: What was assigned in the last round, and to how many workers before some were gone.
    _previous: set[str] = field(default_factory=set)
    _workers: int = 0
    _deadline: float | None = None

    def assign(
        self,
        generation: int,
        members: Mapping[str, Collection[str]],
        connectors: Collection[str],
        now: float,
    ) -> Round:
        """`members` is what each says that it has; `connectors` is what there is to run."""
        if self._generation < 0 or generation != self._generation + 1:
            self._previous, self._workers, self._deadline = set(), 0, None
        self._generation = generation
        owners = _owners(members)
        kept = {
            member: {each for each in owned if each in connectors and owners[each] == 1}
            for member, owned in members.items()
        }
        free = set(connectors) - set(owners)
        held, delay = self._held(free & self._previous, len(members), now)
        for each in sorted(free - held):
            member = min(sorted(kept), key=lambda name: len(kept[name]))
            kept[member].add(each)
        if not held:
            _even_out(kept, {name: set(owned) for name, owned in members.items()})
        self._previous = {each for assigned in kept.values() for each in assigned} | held
        if not held:
            self._workers = len(members)
        revoked = {
            member: {each for each in owned if each not in kept[member]} for member, owned in members.items()
        }
        return Round(kept, revoked, delay)

    def _held(self, lost: set[str], workers: int, now: float) -> tuple[set[str], float]:
        """What waits for a worker to come back, and for how long."""
        if not lost or self.max_delay <= 0 or workers >= self._workers:
            self._deadline = None
            return set(), 0.0
        if self._deadline is None:
            self._deadline = now + self.max_delay
        if now >= self._deadline:
            self._deadline = None
            return set(), 0.0
        return lost, self._deadline - now


def _owners(members: Mapping[str, Collection[str]]) -> dict[str, int]:
    owners: dict[str, int] = {}
    for owned in members.values():
        for each in owned:
            owners[each] = owners.get(each, 0) + 1
    return owners


def _even_out(kept: dict[str, set[str]], owned: Mapping[str, set[str]]) -> None:
    """Take away from whoever has more than its share. Whoever gets it next has to wait until it has been stopped."""
    total = sum(len(each) for each in kept.values())
    share, more = divmod(total, len(kept))
    by_load = sorted(kept, key=lambda name: (-len(kept[name]), name))
    for position, name in enumerate(by_load):
        most = share + (position < more)
        # What was given in this round does not run yet, and is the first to go elsewhere; it cannot be too much,
        # because it went to whoever had least.
        surplus = sorted(kept[name] & owned[name])[most:] if len(kept[name]) > most else []
        kept[name] -= set(surplus[: len(kept[name]) - most])
