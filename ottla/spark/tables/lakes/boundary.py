"""The boundary between a table and its topic: by partition, the first offset that the table lacks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.client.errors import ClientError

#: Property of snapshots and of tables.
PROPERTY = "ottla.table.offsets"
_VERSION = 1


@dataclass(frozen=True)
class Boundary:
    topic: str
    #: As kafka-topics shows it; empty if the cluster has no topic ids.
    topic_id: str = ""
    offsets: Mapping[int, int] = field(default_factory=dict)

    def to_json(self) -> str:
        offsets = {str(partition): offset for partition, offset in sorted(self.offsets.items())}
        return json.dumps(
            {"version": _VERSION, "topic": self.topic, "topicId": self.topic_id, "offsets": offsets}
        )

    @classmethod
    def from_json(cls, text: str, table: str) -> Boundary:
        try:
            given = json.loads(text)
            version = given["version"]
            found = cls(
                given["topic"],
                given["topicId"],
                {int(name): int(end) for name, end in given["offsets"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ClientError(f"The property {PROPERTY} of table {table} is damaged: {text[:200]}.") from None
        if version != _VERSION:
            raise ClientError(
                f"Table {table} was written by a newer version of ottla ({PROPERTY} has version {version}): "
                "upgrade ottla."
            )
        return found

    def check_topic(self, table: str, topic: str, topic_id: str) -> None:
        """Refuse a table that belongs to another topic, or to an earlier topic of the same name."""
        if self.topic != topic:
            raise ClientError(
                f"Table {table} belongs to topic {self.topic}, not to topic {topic}: set ottla.table.namespace."
            )
        if self.topic_id and topic_id and self.topic_id != topic_id:
            raise ClientError(
                f"Topic {topic} was deleted and created again since table {table} was written: drop the table "
                f"with `ottla tables drop {topic}`, or set ottla.table.namespace."
            )
