"""What a connector is: a small class that says how to split the work, and tasks that do it.

The contract is Kafka Connect's, so that a Java connector can be driven through the same interface:

- A connector is started on the driver, says with which configs its tasks run, and is stopped.
- A task runs on an executor. Of a source, `poll` returns the next records, each with its source partition and offset;
  what was committed is found again by `context.offset(partition)`. Records and offsets are written in one transaction,
  so a task that begins again from its offsets gives everything exactly once, if its source can be read again.
- Of a sink, `put` gets records in the order of their offsets and `flush` makes them durable; then their offsets are
  committed to the group `connect-NAME`. After a failure the same records come again: a sink is exactly once if it
  recognizes them by original topic, partition and offset, or by key.

Tasks are called by one thread at a time. `stop` may be called at any time, also after a failure in `start`.
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
        """What was committed last for this source partition."""


class SinkTaskContext(Protocol):
    def report(self, record: SinkRecord, error: Exception, /) -> None:
        """Called with a record that the sink cannot store and the reason: by `errors.tolerance` it is passed over, and
        goes to the dead-letter topic, or the task fails. Kafka's ErrantRecordReporter."""

    @property
    def assignment(self) -> Sequence[TopicPartition]: ...

    def rewind(self, offsets: Mapping[TopicPartition, int], /) -> None:
        """Read these partitions from there on, next: for a sink that keeps offsets with its data."""


class ConnectorContext:
    """What a connector may ask of the runtime, from any thread. This one, for tests, does nothing."""

    def request_task_reconfiguration(self) -> None:
        """`task_configs` would give others now: tasks are stopped, and those of the new configs run."""

    def raise_error(self, error: Exception) -> None:
        """Fail the connector, with this as the reason. Its tasks run on."""

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        """Of a source: what was committed last for this source partition."""
        return None


class Connector:
    """`version` is shown by the REST API; `config_def` is what it validates a config with."""

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
        """Whether its tasks need the worker's own process, as those do that read from its standard input."""
        return False

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """At most `max_tasks`; by default one task with the connector's own config."""
        return [dict(self.config)]

    def local_paths(self, config: Config) -> Mapping[str, str]:
        """Files and directories of the worker's machine that it uses, by setting; "" is standard input or output.

        Workers refuse connectors over REST that use paths outside of `connector.file.directories`.
        """
        return {}

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        """What is wrong beyond single values, by the name of the setting. Called after `config_def` has been."""
        return {}


class SourceColumns(NamedTuple):
    """What one poll gives, in columns."""

    columns: Columns
    #: The offset after the last of them, of each source partition.
    offsets: Sequence[tuple[SourcePartition, SourceOffset]]
    #: The same as records, each with its own offset. Asked for if they have to be handled one by one.
    records: Callable[[], Sequence[SourceRecord]]


class SourceTask:
    """`poll_columns` may be defined as well as `poll`. It is called instead unless a transform needs whole records."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        keep_in_step(cls, "poll", "poll_columns", SourceTask.poll_columns)

    def start(self, config: Config, context: SourceTaskContext) -> None: ...

    def poll(self) -> Sequence[SourceRecord]:
        """The next records, or none for now. Returns within about a second; whoever has nothing returns at once."""
        raise NotImplementedError

    @property
    def gives_columns(self) -> bool:
        return type(self).poll_columns is not SourceTask.poll_columns

    def poll_columns(self) -> SourceColumns | None:
        """As `poll`."""
        raise NotImplementedError

    def commit(self) -> None:
        """Everything that `poll` has returned is committed: a source may let go of it."""

    def stop(self) -> None: ...


class SourceConnector(Connector):
    task_class: ClassVar[type[SourceTask]]

    #: Whether a task that begins again at its offsets gives each record exactly once.
    exactly_once: ClassVar[bool] = True

    def check_offsets(
        self, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> None:
        """Before offsets are altered over REST. Raises ConnectError if they make no sense. Kafka's alterOffsets."""


class SinkTask:
    """`put_columns` may be defined as well as `put`."""

    #: Whether `put` is also called now and then when there is nothing to put, as by Kafka.
    wants_empty_puts: ClassVar[bool] = False

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        keep_in_step(cls, "put", "put_columns", SinkTask.put_columns)

    def start(self, config: Config, context: SinkTaskContext) -> None: ...

    def open(self, partitions: Sequence[TopicPartition]) -> None: ...

    def put(self, records: Sequence[SinkRecord]) -> None:
        """The next records; also called with none while there are none, so that what is due by the clock is done."""
        raise NotImplementedError

    @property
    def takes_columns(self) -> bool:
        return type(self).put_columns is not SinkTask.put_columns

    def put_columns(self, columns: Sequence[SinkColumns]) -> None:
        """As `put` with the records of all of them, in this order. Called where there are no headers, and no record has
        failed on its way. For sinks that do not report single records."""
        raise NotImplementedError

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
        """Make durable what was put. `offsets` are the next ones to be read, as they are committed afterwards.

        A sink that keeps some for later, to write larger files, returns those that may be committed, as Kafka's
        preCommit: a partition that is missing is not committed. A task that begins again gets the records from what
        was committed on.
        """
        return None

    def stop(self) -> None: ...


class SinkConnector(Connector):
    task_class: ClassVar[type[SinkTask]]

    #: What its page says: "exactly once by …" or "at least once".
    delivery: ClassVar[str] = "at least once"
