"""Start and end positions from options, and their resolution to offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.spark.options import OptionError

Offsets = dict[TopicPartition, int]

#: Names that an option accepts instead of an offset.
_NAMES = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True)
class Position:
    """One of three: the same position for all partitions, an offset for each, or a time for each.

    Offsets and times may be EARLIEST or LATEST.
    """

    everywhere: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    timestamp: int | None = None
    timestamps: Mapping[TopicPartition, int] | None = None
    #: Offset for a time after the last record: LATEST, or None to raise an error.
    beyond: int | None = LATEST
    option: str = ""

    @property
    def bounds(self) -> set[int]:
        """Return which of EARLIEST and LATEST are requested by name or number."""
        asked = {self.everywhere, *(self.offsets or {}).values()}
        return {bound for bound in (EARLIEST, LATEST) if bound in asked}

    def resolve(
        self, cluster: Cluster, partitions: Iterable[TopicPartition], isolation_level: int
    ) -> Offsets:
        partitions = list(partitions)
        if self.offsets is not None:
            return self._resolve_offsets(cluster, partitions, isolation_level)
        if self.timestamp is not None:
            return self._resolve_times(cluster, dict.fromkeys(partitions, self.timestamp), isolation_level)
        if self.timestamps is not None:
            self._check_all_named(self.timestamps, partitions)
            return self._resolve_times(cluster, self.timestamps, isolation_level)
        assert self.everywhere is not None
        found = list_offsets(cluster, dict.fromkeys(partitions, self.everywhere), isolation_level)
        return {partition: found[partition].offset for partition in partitions}

    def _resolve_offsets(
        self, cluster: Cluster, partitions: list[TopicPartition], isolation_level: int
    ) -> Offsets:
        assert self.offsets is not None
        self._check_all_named(self.offsets, partitions)
        bounds = {each: self.offsets[each] for each in partitions if self.offsets[each] < 0}
        found = list_offsets(cluster, bounds, isolation_level) if bounds else {}
        return {each: found[each].offset if each in found else self.offsets[each] for each in partitions}

    def _resolve_times(
        self, cluster: Cluster, times: Mapping[TopicPartition, int], isolation_level: int
    ) -> Offsets:
        found = list_offsets(cluster, times, isolation_level)
        missing = sorted(partition for partition, at in found.items() if at.offset < 0)
        if missing and self.beyond is None:
            raise OptionError(
                f"No record of {missing[0]} is as young as {self.option} asks ({times[missing[0]]}); with "
                "startingOffsetsByTimestampStrategy=latest reading would start at the end."
            )
        ends = list_offsets(cluster, dict.fromkeys(missing, LATEST), isolation_level) if missing else {}
        return {each: ends[each].offset if each in ends else found[each].offset for each in times}

    def _check_all_named(
        self, named: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]
    ) -> None:
        missing = sorted(set(partitions) - set(named))
        unknown = sorted(set(named) - set(partitions))
        if missing:
            raise OptionError(
                f"{self.option} must name every partition, and {missing[0]} is not in it: "
                "-1 means latest, -2 earliest."
            )
        if unknown:
            raise OptionError(f"{self.option} names {unknown[0]}, which is not read.")


def parse_offsets(option: str, text: str) -> Position:
    """Parse `earliest`, `latest`, or JSON such as {"topic": {"0": 23, "1": -1}}."""
    name = text.strip().lower()
    if name in _NAMES:
        return Position(everywhere=_NAMES[name], option=option)
    return Position(offsets=parse_partition_numbers(option, text, least=EARLIEST), option=option)


def parse_timestamps(option: str, text: str, beyond: int | None) -> Position:
    return Position(timestamps=parse_partition_numbers(option, text), beyond=beyond, option=option)


def parse_timestamp(option: str, text: str, beyond: int | None) -> Position:
    if not text.strip().isdigit():
        raise OptionError(f"{option} must be a number of milliseconds since 1970, not '{text}'.")
    return Position(timestamp=int(text), beyond=beyond, option=option)


def parse_partition_numbers(option: str, text: str, least: int = 0) -> Offsets:
    shape = f'{option} must be JSON such as {{"topic": {{"0": 23, "1": 42}}}}'
    try:
        topics = json.loads(text)
        numbers = {
            TopicPartition(topic, int(partition)): number
            for topic, partitions in topics.items()
            for partition, number in partitions.items()
        }
    except (ValueError, AttributeError):
        raise OptionError(f"{shape}, not '{text}'.") from None
    for partition, number in numbers.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise OptionError(f"{shape}, and {partition} has {json.dumps(number)}.")
    return numbers
