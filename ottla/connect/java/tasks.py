"""Java tasks behind the interfaces of `api.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ottla.connect.api import (
    Config,
    SinkTask,
    SinkTaskContext,
    SourceTask,
    SourceTaskContext,
    TopicPartition,
)
from ottla.connect.config.config_def import ConfigError
from ottla.connect.data.record import SinkRecord, SourceRecord
from ottla.connect.errors import ConnectError, DataError, RetriableError
from ottla.connect.java import machine
from ottla.connect.java.contexts import sink_task_context, source_task_context
from ottla.connect.java.data import Crossing, to_java_config
from ottla.connect.java.jars import JavaPlugin, Libraries


def as_ours(error: Any) -> Exception:
    """Convert a Java exception: its message, the message of its root cause, and its stack trace as a note."""
    import jpype

    name = str(error.getClass().getName())
    message = str(error.getMessage() or name)
    kinds = (
        ("org.apache.kafka.connect.errors.RetriableException", RetriableError),
        ("org.apache.kafka.connect.errors.DataException", DataError),
        ("org.apache.kafka.connect.errors.ConnectException", ConnectError),
        ("org.apache.kafka.common.config.ConfigException", ConfigError),
    )
    cause = error
    while cause.getCause() is not None:
        cause = cause.getCause()
    if cause is not error and cause.getMessage() and str(cause.getMessage()) not in message:
        message = f"{message.rstrip('.')}: {cause.getMessage()}"
    for java_name, kind in kinds:
        if isinstance(error, jpype.JClass(java_name)):
            ours: Exception = kind(message)
            break
    else:
        ours = ConnectError(f"{name}: {message}")
    ours.add_note(str(error.stacktrace()))
    return ours


class Calls:
    """Calls Java with the plugin's class loader, and converts Java exceptions to ours."""

    def __init__(self, plugin: JavaPlugin) -> None:
        self._context = plugin.jars

    def __call__(self, method: Any, *arguments: Any) -> Any:
        import jpype

        try:
            with machine.as_context(self._context):
                return method(*arguments)
        except jpype.JException as error:
            # Drop the Java exception as the cause, because it cannot be pickled or printed without Java.
            raise as_ours(error) from None


class JavaSourceTask(SourceTask):
    plugin: ClassVar[JavaPlugin]
    libraries: ClassVar[Libraries]

    def start(self, config: Config, context: SourceTaskContext) -> None:
        machine.start(self.libraries)
        self._call = Calls(self.plugin)
        self._task: Any = None
        self._last: list[Any] = []
        connector = machine.new(self.plugin)
        task_class = self._call(connector.taskClass)
        self._crossing = Crossing(self.libraries)
        self._task = machine.new(self.plugin, str(task_class.getName()))
        self._call(self._task.initialize, source_task_context(config, context))
        self._call(self._task.start, to_java_config(config, self.plugin.class_name))

    def poll(self) -> Sequence[SourceRecord]:
        records = self._call(self._task.poll)
        if records is None:
            return ()
        polled = list(records)
        self._last += polled
        return [self._crossing.source_record(each) for each in polled]

    def commit(self) -> None:
        for each in self._last:
            self._call(self._task.commitRecord, each, None)
        self._last.clear()
        self._call(self._task.commit)

    def stop(self) -> None:
        task = getattr(self, "_task", None)
        if task is not None:
            self._call(task.stop)


class JavaSinkTask(SinkTask):
    plugin: ClassVar[JavaPlugin]
    libraries: ClassVar[Libraries]

    def start(self, config: Config, context: SinkTaskContext) -> None:
        import jpype

        machine.start(self.libraries)
        self._call = Calls(self.plugin)
        self._task: Any = None
        self._crossing = Crossing(self.libraries)
        self._partition = jpype.JClass("org.apache.kafka.common.TopicPartition")
        self._offset = jpype.JClass("org.apache.kafka.clients.consumer.OffsetAndMetadata")
        #: Records of the last `put` by topic, partition and offset, in case the sink reports one.
        self._put: dict[tuple[str, int, int], SinkRecord] = {}
        task_class = self._call(machine.new(self.plugin).taskClass)
        self._task = machine.new(self.plugin, str(task_class.getName()))
        self._call(self._task.initialize, sink_task_context(config, context, self._put))
        self._call(self._task.start, to_java_config(config, self.plugin.class_name))
        self._opened: list[Any] = []

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        self._opened = [self._partition(each.topic, each.partition) for each in partitions]
        self._call(self._task.open, _java_list(self._opened))

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._put.clear()
        crossed = []
        for each in records:
            self._put[each.topic, each.partition or 0, each.offset] = each
            crossed.append(self._crossing.sink_record(each))
        self._call(self._task.put, _java_list(crossed))

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets that the sink declares durable, possibly fewer than requested."""
        import jpype

        asked = jpype.java.util.HashMap()
        for each, offset in offsets.items():
            asked.put(self._partition(each.topic, each.partition), self._offset(offset))
        answered = self._call(self._task.preCommit, asked)
        if answered is None:
            return {}
        return {
            TopicPartition(str(each.getKey().topic()), int(each.getKey().partition())): int(
                each.getValue().offset()
            )
            for each in answered.entrySet()
        }

    def stop(self) -> None:
        task = getattr(self, "_task", None)
        if task is None:
            return
        if self._opened:
            self._call(task.close, _java_list(self._opened))
        self._call(task.stop)


def _java_list(members: Sequence[Any]) -> Any:
    import jpype

    found = jpype.java.util.ArrayList()
    for each in members:
        found.add(each)
    return found
