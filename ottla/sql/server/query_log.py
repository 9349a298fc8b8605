"""Log of the queries of a server, which restarts them when it comes back.

The log is a compacted topic. The key of a record is the service id and the name of the query's sink, or the query id
for INSERT INTO. The value is the statement with its properties. The server writes it before starting the query and
removes it after the query has ended. After a crash, the topic therefore has all queries that the server promised to
run.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from dataclasses import dataclass, field

from ottla.protocol.internal_topics import SQL_QUERIES_TOPIC as TOPIC
from ottla.sql.brokers import Brokers
from ottla.sql.sources import TopicShape

_log = logging.getLogger(__name__)

#: Version of the JSON in a record. The oldest records have no version field.
_VERSION = 1


@dataclass(frozen=True)
class LoggedQuery:
    key: str
    statement: str
    properties: dict[str, str] = field(default_factory=dict)
    number: int = 0  # position in the start order
    query_id: str | None = None  # None until the first start
    paused: bool = False

    def to_json(self) -> bytes:
        plain = dataclasses.asdict(self)
        del plain["key"]
        return json.dumps({"version": _VERSION, **plain}, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, key: str, value: bytes) -> LoggedQuery:
        """Raises ValueError."""
        plain = json.loads(value)
        if not isinstance(plain, dict) or not isinstance(plain.get("statement"), str):
            raise ValueError("it is no statement")
        if plain.get("version", 1) > _VERSION:
            raise ValueError("a newer version of Ottla wrote it")
        known = {each.name for each in dataclasses.fields(cls)}
        return cls(key=key, **{name: each for name, each in plain.items() if name in known and name != "key"})


class QueryLog:
    """Queries of one service id. Callers hold the lock of the server's commands."""

    def __init__(self, brokers: Brokers, service_id: str) -> None:
        self._brokers = brokers
        self._prefix = f"{service_id}/"
        self._held: dict[str, LoggedQuery] = {}

    def load(self) -> list[LoggedQuery]:
        """Return the queries in start order, because a query may read another query's output."""
        self._brokers.create_topic(TOPIC, TopicShape(partitions=1), {"cleanup.policy": "compact"})
        self._held = {}
        for record in self._brokers.read(TOPIC, from_beginning=True, follow=False):
            key = (record.key or b"").decode()
            if not key.startswith(self._prefix):
                continue
            key = key.removeprefix(self._prefix)
            if record.value is None:
                self._held.pop(key, None)
            else:
                try:
                    self._held[key] = LoggedQuery.from_json(key, record.value)
                except ValueError as error:
                    _log.error("The query %s in %s cannot be read, and does not run: %s.", key, TOPIC, error)
        return self.all()

    def all(self) -> list[LoggedQuery]:
        return sorted(self._held.values(), key=lambda each: each.number)

    def get(self, key: str) -> LoggedQuery | None:
        return self._held.get(key)

    def put(self, query: LoggedQuery) -> None:
        if self._held.get(query.key) != query:
            self._write(query.key, query.to_json())
            self._held[query.key] = query

    def remove(self, key: str) -> None:
        if key in self._held:
            self._write(key, None)
            del self._held[key]

    def next_number(self) -> int:
        return self._brokers.end_offset(TOPIC)

    def _write(self, key: str, value: bytes | None) -> None:
        self._brokers.produce(TOPIC, [(f"{self._prefix}{key}".encode(), value, None)])
