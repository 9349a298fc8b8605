"""Assigns connectors to workers: evenly, with few moves, and never to two workers at once. Pure.

A connector moves in two rounds. The first round revokes it from its worker, which stops it and rejoins. The second
round assigns it to another worker. A joining worker reports its connectors, including those not yet stopped, and the
assignor never assigns a reported connector to another worker.

A missing worker may return soon, for example after a restart. Its connectors wait for up to
`scheduled.rebalance.max.delay.ms`, or until the group has as many workers as before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Round:
    """The connectors to assign to and revoke from each member, and the seconds until the next rejoin (0: never)."""

    assigned: dict[str, set[str]]
    revoked: dict[str, set[str]]
    delay: float = 0.0


@dataclass
class Assignor:
    """The leader's memory between rounds. It is void after another member has led."""

    max_delay: float
    _generation: int = -1
    #: The last assignment, and the number of workers before some went missing.
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
        """`members` maps each member to the connectors it reports. `connectors` are all connectors to run."""
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
        """Return the connectors that wait for a missing worker, and the remaining delay."""
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
    """Revoke connectors from members above their share. The next owner must wait until they have stopped."""
    total = sum(len(each) for each in kept.values())
    share, more = divmod(total, len(kept))
    by_load = sorted(kept, key=lambda name: (-len(kept[name]), name))
    for position, name in enumerate(by_load):
        most = share + (position < more)
        # Connectors assigned in this round do not run yet. They never exceed the share, because the member with the
        # fewest connectors got them.
        surplus = sorted(kept[name] & owned[name])[most:] if len(kept[name]) > most else []
        kept[name] -= set(surplus[: len(kept[name]) - most])
