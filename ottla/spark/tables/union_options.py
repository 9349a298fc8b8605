"""Options of union reads, and how the table job and readers reach topics. Imports little, for fast processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ottla.client.schema_registry import RegistrySettings
from ottla.spark.formats.registered.registry_options import REGISTRY_OPTIONS, parse_registry
from ottla.spark.options import SECURITY_OPTIONS, KnownOptions, OptionError, Options
from ottla.spark.source.source_options import SourceOptions, parse_options
from ottla.spark.tables.lakes.warehouse import default_warehouse

OPTIONS = ("topic", "path", "warehouse", "tablesFile", "columns", "asOfOffsets", "asOfTimestamp")
#: Options of `read_table` alone.
_INTERNAL = ("snapshot", "onlyTail")
_KNOWN = KnownOptions(
    (*OPTIONS, *_INTERNAL, *REGISTRY_OPTIONS),
    kafka=(
        *SECURITY_OPTIONS,
        "bootstrap.servers", "client.id", "default.api.timeout.ms", "request.timeout.ms", "retry.backoff.ms",
    ),
    without_effect=(),
    refused={},
    no_path="",
    purpose=" of ottla.table",
)  # fmt: skip


@dataclass(frozen=True)
class Connection:
    """How to reach the topics: Kafka client properties, and the schema registry."""

    properties: Mapping[str, str]
    registry: RegistrySettings | None = None

    def source_options(self, topic: str) -> SourceOptions:
        given = {f"kafka.{name}": value for name, value in self.properties.items()}
        given |= {
            "subscribe": topic,
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed",
        }
        return parse_options(given, streaming=False)


@dataclass(frozen=True)
class AsOf:
    """A moment in the past: offsets by partition, or a time in milliseconds. Rows at and after it are left out."""

    offsets: Mapping[int, int] | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True)
class UnionOptions:
    topic: str
    connection: Connection
    warehouse: str
    tables_file: str = ""
    columns: tuple[str, ...] = ()
    as_of: AsOf = field(default_factory=AsOf)
    #: Read this snapshot instead of the current one.
    snapshot: int | None = None
    #: Leave out the data files, which Spark reads itself.
    only_tail: bool = False


def parse_union_options(given: Mapping[str, str]) -> UnionOptions:
    # Spark passes the argument of load() as `path`, which `KnownOptions` would refuse.
    values = {name.lower(): value for name, value in given.items()}
    topic = values.pop("path", None) or values.get("topic")
    options = Options(values, _KNOWN)
    if not topic:
        raise OptionError("The topic is missing: name it with load('orders') or .option('topic', 'orders').")
    options.client_settings()
    registry: RegistrySettings | None = parse_registry(options)
    properties = {
        name.removeprefix("kafka."): value for name, value in values.items() if name.startswith("kafka.")
    }
    columns = tuple(each.strip() for each in (options.text("columns") or "").split(",") if each.strip())
    snapshot = options.text("snapshot")
    return UnionOptions(
        topic,
        Connection(properties, registry),
        options.text("warehouse") or default_warehouse(),
        options.text("tablesFile") or "",
        columns,
        _as_of(options),
        None if not snapshot else int(snapshot),
        options.flag("onlyTail", False),
    )


def _as_of(options: Options) -> AsOf:
    offsets, timestamp = options.text("asOfOffsets"), options.text("asOfTimestamp")
    if offsets is not None and timestamp is not None:
        raise OptionError("asOfOffsets and asOfTimestamp contradict each other: omit one of them.")
    if offsets is not None:
        try:
            return AsOf({int(partition): int(end) for partition, end in json.loads(offsets).items()})
        except (ValueError, TypeError, AttributeError):
            raise OptionError(
                f'asOfOffsets must be JSON such as {{"0": 23, "1": 42}}, not \'{offsets}\'.'
            ) from None
    if timestamp is None:
        return AsOf()
    if timestamp.strip().isdigit():
        return AsOf(timestamp_ms=int(timestamp))
    try:
        moment = datetime.fromisoformat(timestamp.strip())
    except ValueError:
        raise OptionError(
            "asOfTimestamp must be milliseconds since 1970 or a time such as 2026-11-18T12:00:00+00:00, "
            f"not '{timestamp}'."
        ) from None
    if moment.tzinfo is None:
        raise OptionError(f"asOfTimestamp '{timestamp}' needs a time zone, such as +00:00.")
    return AsOf(timestamp_ms=round(moment.timestamp() * 1000))
