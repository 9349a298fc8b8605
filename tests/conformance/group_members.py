"""Waiting for the combined effects of several group members."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .member import Member
from .records import Record
from .waiting import wait_for

PARTITIONS = 6


def wait_for_all(
    members: Sequence[Member], condition: Callable[[], bool], what: str, timeout: float = 60
) -> None:
    """Wait for a condition that several members fulfil together."""

    def holds() -> bool:
        assert all(member.failure is None for member in members), "a member failed"
        return condition()

    try:
        wait_for(holds, what, timeout)
    except AssertionError as error:
        raise AssertionError(f"{error}\n" + "\n".join(map(str, members))) from None


def wait_for_shares(members: Sequence[Member], what: str, timeout: float = 60) -> None:
    """Wait until every partition has one owner and the shares differ by at most one."""

    def shared() -> bool:
        owned = sorted(partition for member in members for partition in member.assignment)
        sizes = [len(member.assignment) for member in members]
        return owned == list(range(PARTITIONS)) and max(sizes) - min(sizes) <= 1

    wait_for_all(members, shared, what, timeout)


def wait_for_records(members: Sequence[Member], records: list[Record]) -> None:
    wanted = {record.value for record in records}
    wait_for_all(members, lambda: values(members) >= wanted, "everything is read")


def values(members: Sequence[Member]) -> set[bytes | None]:
    return {record.value for member in members for record in member.records}


def spread(n: int, text: str) -> list[Record]:
    return [Record(value=f"{text} {i}".encode(), partition=i % PARTITIONS) for i in range(n)]
