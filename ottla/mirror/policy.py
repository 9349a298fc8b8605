"""What topics are called on the other side, and which topics and groups are copied, by MirrorMaker's rules."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ottla.client.errors import ClientError

HEARTBEATS = "heartbeats"


class ReplicationPolicy:
    """DefaultReplicationPolicy: a topic of cluster A is called A.topic elsewhere, so there are no loops."""

    def __init__(self, separator: str = ".", internal_separator: str | None = None) -> None:
        self.separator = separator
        #: MirrorMaker's own topics have dots, unless `replication.policy.internal.topic.separator.enabled`.
        self._internal = internal_separator or "."

    def remote_topic(self, source: str, topic: str) -> str:
        return source + self.separator + topic

    def topic_source(self, topic: str) -> str | None:
        """The cluster that a topic was copied from; None if it is at home here."""
        source, found, rest = topic.partition(self.separator)
        return source if found and source and rest else None

    def upstream_topic(self, topic: str) -> str | None:
        """What it is called where it was copied from."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        upstream = self.upstream_topic(topic)
        return topic if upstream is None else self.original_topic(upstream)

    def is_cycle(self, topic: str, target: str) -> bool:
        """Whether it has been on the target already, and would come back there."""
        source = self.topic_source(topic)
        if source is None:
            return False
        upstream = self.upstream_topic(topic)
        return source == target or (upstream is not None and self.is_cycle(upstream, target))

    def is_heartbeats(self, topic: str) -> bool:
        return self.original_topic(topic) == HEARTBEATS

    def is_internal(self, topic: str) -> bool:
        if topic.startswith(("__", ".")):
            return True
        return topic.endswith((f"{self._internal}internal", ".internal", "-internal"))

    def offset_syncs_topic(self, target: str) -> str:
        return self._own("mm2-offset-syncs", target)

    def checkpoints_topic(self, source: str) -> str:
        return self._internal.join((source, "checkpoints", "internal"))

    def runs_topic(self, source: str) -> str:
        """Ours: the runs of copied records, for exact offsets."""
        return self._own("mm2-offset-runs", source)

    def positions_topic(self, source: str) -> str:
        """Connect's topic of source offsets, in MirrorMaker's dedicated mode. It has dots in any case."""
        return f"mm2-offsets.{source}.internal"

    def _own(self, name: str, alias: str) -> str:
        return self._internal.join((name, alias, "internal"))


class IdentityReplicationPolicy(ReplicationPolicy):
    """Topics keep their names. Loops cannot be seen then: it is for one direction at a time."""

    def __init__(
        self, source: str | None, separator: str = ".", internal_separator: str | None = None
    ) -> None:
        super().__init__(separator, internal_separator)
        self._source = source

    def remote_topic(self, source: str, topic: str) -> str:
        return super().remote_topic(source, topic) if self._looks_like_heartbeat(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        return super().topic_source(topic) if self._looks_like_heartbeat(topic) else self._source

    def upstream_topic(self, topic: str) -> str | None:
        return super().upstream_topic(topic) if self._looks_like_heartbeat(topic) else topic

    def original_topic(self, topic: str) -> str:
        return super().original_topic(topic) if self._looks_like_heartbeat(topic) else topic

    def is_cycle(self, topic: str, target: str) -> bool:
        return False

    @staticmethod
    def _looks_like_heartbeat(topic: str) -> bool:
        return topic.endswith(HEARTBEATS)


class NameFilter:
    """Names that one of the patterns matches and none of the others excludes. A pattern matches the whole name."""

    def __init__(self, included: Sequence[str], excluded: Sequence[str] = ()) -> None:
        self.included = tuple(included)
        self._included = _compiled(included)
        self._excluded = _compiled(excluded)

    def __call__(self, name: str) -> bool:
        if self._excluded is not None and self._excluded.fullmatch(name):
            return False
        return self._included is not None and self._included.fullmatch(name) is not None


def _compiled(patterns: Sequence[str]) -> re.Pattern[str] | None:
    if not patterns:
        return None
    try:
        return re.compile("|".join(f"(?:{each})" for each in patterns))
    except re.error as error:
        raise ClientError(f"'{', '.join(patterns)}' is not a list of regular expressions: {error}.") from None
