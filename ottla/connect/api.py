"""The connector API: a connector splits the work into task configs, and tasks move the records.

The contract follows Kafka Connect, so the same interface can drive a Java connector:

- A connector runs on the driver. The runtime starts it, asks for its task configs, and stops it.
- A source task runs on an executor. `poll` returns the next records, each with a source partition and offset, and
  `context.offset(partition)` returns the last committed offset. The runtime writes records and offsets in one
  transaction, so a task that resumes from its offsets delivers exactly once if the source can be read again.
- A sink task gets records in offset order through `put`, and `flush` makes them durable. The runtime then commits the
  offsets to the group `connect-NAME`. After a failure the task gets the same records again: a sink is exactly once if
  it recognizes duplicates by key or by original topic, partition and offset.

The runtime calls a task from one thread at a time. It may call `stop` at any time, even after `start` has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from ottla.connect.config.config_def import ConfigDef
from ottla.connect.data.columns import Columns, SinkColumns, keep_in_step
from ottla.connect.data.record import SinkRecord, SourceRecord

Config = Mapping[str, str]
SourcePartition = Mapping[str, Any]
SourceOffset = Mapping[str, Any]


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class SourceTaskContext(Protocol):
    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        """Return the last committed offset of a source partition."""


class SinkTaskContext(Protocol):
    def report(self, record: SinkRecord, error: Exception, /) -> None:
        """Report a record that the sink cannot store, like Kafka's ErrantRecordReporter.

        Depending on `errors.tolerance`, the runtime skips the record and sends it to the dead letter queue, or fails
        the task.
        """

    @property
    def assignment(self) -> Sequence[TopicPartition]: ...

    def rewind(self, offsets: Mapping[TopicPartition, int], /) -> None:
        """Continue reading these partitions at the given offsets, for sinks that store offsets with their data."""


class ConnectorContext:
    """Calls from a connector to the runtime, safe from any thread. This base class does nothing and serves tests."""

    def request_task_reconfiguration(self) -> None:
        """Restart the tasks because `task_configs` would now return something else."""

    def raise_error(self, error: Exception) -> None:
        """Fail the connector with this error. The tasks keep running."""

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        """Return the last committed offset of a source partition. Source connectors only."""
        return None


class Connector:
    """The REST API shows `version` and validates configs against `config_def`."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    version: ClassVar[str] = ""
    #: One line for `ottla connect plugins`.
    summary: ClassVar[str] = ""

    #: Set by the runtime before `start`.
    context: ConnectorContext = ConnectorContext()

    def start(self, config: Config) -> None:
        self.config = config

    def stop(self) -> None: ...

    def runs_in_driver(self) -> bool:
        """Return True if the tasks must run in the worker process, for example to read standard input."""
        return False

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return at most `max_tasks` configs. The default is one task with the connector's config."""
        return [dict(self.config)]

    def local_paths(self, config: Config) -> Mapping[str, str]:
        """Return the files and directories on the worker's machine, by setting. "" means standard input or output.

        Workers reject connectors created over REST if a path lies outside `connector.file.directories`.
        """
        return {}

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        """Return errors that involve several settings, by setting name. Runs after the checks of `config_def`."""
        return {}


class SourceColumns(NamedTuple):
    """Columnar result of one poll."""

    columns: Columns
    #: Offset of each source partition after the last row.
    offsets: Sequence[tuple[SourcePartition, SourceOffset]]
    #: The same rows as records with individual offsets, for transforms and error handling per record.
    records: Callable[[], Sequence[SourceRecord]]


class SourceTask:
    """A task may define `poll_columns` beside `poll`. The runtime prefers it unless a transform needs whole records."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        keep_in_step(cls, "poll", "poll_columns", SourceTask.poll_columns)

    def start(self, config: Config, context: SourceTaskContext) -> None: ...

    def poll(self) -> Sequence[SourceRecord]:
        """Return the next records, possibly none. Return at once when idle, and within about a second otherwise."""
        raise NotImplementedError

    @property
    def gives_columns(self) -> bool:
        return type(self).poll_columns is not SourceTask.poll_columns

    def poll_columns(self) -> SourceColumns | None:
        raise NotImplementedError

    def commit(self) -> None:
        """All records returned by `poll` are committed, so the source may discard them."""

    def stop(self) -> None: ...


class SourceConnector(Connector):
    task_class: ClassVar[type[SourceTask]]

    #: True if a task that resumes from its offsets delivers each record exactly once.
    exactly_once: ClassVar[bool] = True

    def check_offsets(
        self, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> None:
        """Check offsets before the REST API alters them, like Kafka's alterOffsets.

        Raises ConnectError if they are invalid.
        """


class SinkTask:
    """A task may define `put_columns` beside `put`."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        keep_in_step(cls, "put", "put_columns", SinkTask.put_columns)

    def start(self, config: Config, context: SinkTaskContext) -> None: ...

    def open(self, partitions: Sequence[TopicPartition]) -> None: ...

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Accept the next records. Like Kafka, the runtime also passes empty batches, for work due by time."""
        raise NotImplementedError

    @property
    def takes_columns(self) -> bool:
        return type(self).put_columns is not SinkTask.put_columns

    def put_columns(self, columns: Sequence[SinkColumns]) -> None:
        """Accept the records of all columns in this order.

        The runtime calls this only for records without headers that passed every stage. Such sinks cannot report single
        records.
        """
        raise NotImplementedError

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
        """Make the records durable. `offsets` are the next offsets to read, which the runtime commits afterwards.

        A sink that buffers records, for example to write larger files, returns the offsets that are safe to commit,
        like Kafka's preCommit. The runtime does not commit missing partitions. A restarted task reads from the
        committed offsets.
        """
        return None

    def stop(self) -> None: ...


class SinkConnector(Connector):
    task_class: ClassVar[type[SinkTask]]

    #: Delivery guarantee for the documentation page: "exactly once by …" or "at least once".
    delivery: ClassVar[str] = "at least once"
