"""The sinks `com.redis.kafka.connect.RedisSinkConnector` and jcustenborder's `RedisSinkConnector`.

Delivery is exactly once: one MULTI/EXEC writes the commands of a batch and the next offsets. The task reads the offsets
under WATCH before each batch and skips records that are already stored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ottla.connect.api import Config, SinkConnector, SinkTask, SinkTaskContext, TopicPartition
from ottla.connect.connectors.redis import settings
from ottla.connect.connectors.redis.commands import Command, Commands
from ottla.connect.data.record import SinkRecord
from ottla.connect.errors import ConnectError, DataError, RetriableError

_UNKNOWN = re.compile(r"unknown command '([^']+)'")

_ATTEMPTS = 5
#: Keys for offsets, by connector, topic and partition.
OFFSET_KEY = "ottla.connect.offset.{}.{}.{}"


class _RedisConnector(SinkConnector):
    delivery = "exactly once by offsets in the same MULTI/EXEC; at least once with redis.multiexec=false"

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config) for _ in range(max_tasks)]


class RedisSinkTask(SinkTask):
    connector: ClassVar[type[_RedisConnector]]

    def start(self, config: Config, context: SinkTaskContext) -> None:
        self._client: redis.Redis | None = None
        self._settings: dict[str, Any] = self.connector.config_def.parse(config)
        self._context = context
        self._name = config.get("name", "")
        self._commands = Commands(self._settings)
        address = settings.address(self._settings)
        self._where = f"{address['host']}:{address['port']}"
        # The runtime retries and logs the retries.
        self._client = redis.Redis(**address, retry=Retry(NoBackoff(), 0))
        try:
            self._client.ping()
        except redis.RedisError as error:
            raise ConnectError(self._reason(error)) from None

    def stop(self) -> None:
        client = getattr(self, "_client", None)
        if client is not None:
            client.close()

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        client = self._client
        assert client is not None
        exactly_once = self._settings.get("redis.multiexec", True)
        try:
            with client.pipeline(transaction=exactly_once) as pipeline:
                if exactly_once:
                    self._put_once(pipeline, records)
                else:
                    self._execute(pipeline, [(record, self._command(record)) for record in records])
            self._wait_for_replicas(client)
        except redis.RedisError as error:
            raise self._retriable(error) from None

    def _put_once(self, pipeline: Any, records: Sequence[SinkRecord]) -> None:
        keys = {at: self._offset_key(at) for at in {_at(record) for record in records}}
        commands: dict[int, Command | None] = {}
        for _ in range(_ATTEMPTS):
            # A replaced task may still write. If it writes after this WATCH, EXEC does nothing.
            pipeline.watch(*keys.values())
            stored = {
                at: int(found or 0) for at, found in zip(keys, pipeline.mget(*keys.values()), strict=True)
            }
            wanted = [place for place, record in enumerate(records) if record.offset >= stored[_at(record)]]
            for place in wanted:
                if place not in commands:
                    commands[place] = self._command(records[place])
                stored[_at(records[place])] = records[place].offset + 1
            pipeline.multi()
            for at, key in keys.items():
                pipeline.set(key, stored[at])
            try:
                self._execute(pipeline, [(records[place], commands[place]) for place in wanted], len(keys))
                return
            except redis.WatchError:
                continue
        raise RetriableError(f"Another task of {self._name} writes to Redis at {self._where} all the time.")

    def _execute(
        self, pipeline: Any, commands: Sequence[tuple[SinkRecord, Command | None]], before: int = 0
    ) -> None:
        """Queue the commands and execute the pipeline, which already contains `before` commands."""
        given = [(record, command) for record, command in commands if command is not None]
        for _, command in given:
            pipeline.execute_command(*command)
        results = pipeline.execute(raise_on_error=False)
        for (record, command), result in zip(given, results[before:], strict=True):
            if isinstance(result, redis.ResponseError):
                self._refused(record, command, result)

    def _command(self, record: SinkRecord) -> Command | None:
        try:
            return self._commands.of(record)
        except (DataError, UnicodeEncodeError) as error:
            self._context.report(record, error)
            return None

    def _refused(self, record: SinkRecord, command: Command, error: Exception) -> None:
        text = str(error)
        if "unknown command" in text.lower():
            raise ConnectError(
                f"Redis at {self._where} does not know {command[0]!s}: it needs the module for it."
            )
        if text.startswith(("OOM", "READONLY", "NOAUTH", "NOPERM", "MISCONF")):
            raise ConnectError(f"Redis at {self._where} takes no writes: {text}.")
        self._context.report(record, DataError(f"Redis refuses {command[0]!s} for this record: {text}."))

    def _offset_key(self, at: TopicPartition) -> str:
        return OFFSET_KEY.format(self._name, at.topic, at.partition)

    def _wait_for_replicas(self, client: Any) -> None:
        wanted = self._settings.get("redis.wait.replicas", 0)
        if wanted and client.wait(wanted, self._settings["redis.wait.timeout"]) < wanted:
            raise RetriableError(f"Fewer than {wanted} replicas of Redis at {self._where} have the records.")

    def _retriable(self, error: redis.RedisError) -> ConnectError:
        if isinstance(error, redis.ConnectionError | redis.TimeoutError) and not _is_refusal(error):
            return RetriableError(self._reason(error))
        unknown = _UNKNOWN.search(str(error))
        if unknown:
            return ConnectError(
                f"Redis at {self._where} does not know {unknown[1]}: it needs the module for it."
            )
        return ConnectError(self._reason(error))

    def _reason(self, error: redis.RedisError) -> str:
        text = " ".join(str(error).split()).rstrip(".")
        if _is_refusal(error):
            return (
                f"Redis at {self._where} refuses the login: {text}. Check redis.username and redis.password."
            )
        return f"Cannot reach Redis at {self._where}: {text}. Check the address and whether it is running."


def _is_refusal(error: redis.RedisError) -> bool:
    text = str(error)
    return (
        isinstance(error, redis.AuthenticationError)
        or text.startswith(("WRONGPASS", "NOAUTH"))
        or "AUTH" in text
    )


def _at(record: SinkRecord) -> TopicPartition:
    return TopicPartition(record.original_topic, record.original_partition)


class RedisSinkConnector(_RedisConnector):
    config_def = settings.redis()
    summary = "Redis: streams, hashes, strings, lists, sets, sorted sets"


class RedisCacheSinkConnector(_RedisConnector):
    config_def = settings.cache()
    summary = "Redis: strings by key, deleted by tombstones"


for _each in (RedisSinkConnector, RedisCacheSinkConnector):
    _each.task_class = type(
        _each.__name__.replace("Connector", "Task"), (RedisSinkTask,), {"connector": _each}
    )
