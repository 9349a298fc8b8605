"""MirrorMaker's rules for naming topics on the target and selecting topics and groups."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ottla.client.errors import ClientError

HEARTBEATS = "heartbeats"


class ReplicationPolicy:
    """DefaultReplicationPolicy: prefixes remote topics with the source alias, as in A.topic, which prevents loops."""

    def __init__(self, separator: str = ".", internal_separator: str | None = None) -> None:
        self.separator = separator
        #: Internal topics use dots unless `replication.policy.internal.topic.separator.enabled` is set.
        self._internal = internal_separator or "."

    def remote_topic(self, source: str, topic: str) -> str:
        return source + self.separator + topic

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that the topic was copied from, or None for a local topic."""
        source, found, rest = topic.partition(self.separator)
        return source if found and source and rest else None

    def upstream_topic(self, topic: str) -> str | None:
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        upstream = self.upstream_topic(topic)
        return topic if upstream is None else self.original_topic(upstream)

    def is_cycle(self, topic: str, target: str) -> bool:
        """Return True if copying the topic to `target` would bring it back to a cluster that already had it."""
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
        """Return Ottla's own topic with runs of copied records, used for exact offset translation."""
        return self._own("mm2-offset-runs", source)

    def positions_topic(self, source: str) -> str:
        """Return Connect's source offsets topic in MirrorMaker's dedicated mode. It always uses dots."""
        return f"mm2-offsets.{source}.internal"

    def _own(self, name: str, alias: str) -> str:
        return self._internal.join((name, alias, "internal"))


class IdentityReplicationPolicy(ReplicationPolicy):
    """Topics keep their names. Loops cannot be detected, so use one direction at a time."""

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
    """Accepts names that match an included pattern and no excluded pattern. Patterns match the whole name."""

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
