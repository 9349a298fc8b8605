"""The contexts that Kafka's worker offers to connectors and tasks, as Python implementations of Java interfaces."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from ottla.connect.api import (
    Config,
    ConnectorContext,
    SinkTaskContext,
    SourceTaskContext,
    TopicPartition,
)
from ottla.connect.data.record import SinkRecord
from ottla.connect.errors import ConnectError
from ottla.connect.java.data import from_java_map, offset_to_java, to_java_map

_log = logging.getLogger(__name__)

_PACKAGE = "org.apache.kafka.connect"


class _OffsetReader:
    def __init__(self, lookup: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]) -> None:
        self._lookup = lookup

    def offset(self, partition: Any) -> Any:
        return offset_to_java(self._lookup(from_java_map(partition)))

    def offsets(self, partitions: Any) -> Any:
        import jpype

        found = jpype.java.util.HashMap()
        for each in partitions:
            found.put(each, self.offset(each))
        return found


class _SourceTaskContext:
    def __init__(self, config: Config, reader: Any) -> None:
        self._config = config
        self._reader = reader

    def configs(self) -> Any:
        return to_java_map(self._config)

    def offsetStorageReader(self) -> Any:
        return self._reader

    def transactionContext(self) -> Any:
        """Return null: the worker, not the connector, defines transactions."""
        return None

    def pluginMetrics(self) -> Any:
        return plugin_metrics()


class _FullContext(SinkTaskContext, Protocol):
    """Runtime calls that only Java sinks need."""

    def pause(self, partitions: Iterable[TopicPartition], /) -> None: ...

    def resume(self, partitions: Iterable[TopicPartition], /) -> None: ...

    def request_commit(self) -> None: ...


class _SinkTaskContext:
    def __init__(
        self, config: Config, context: _FullContext, put: Mapping[tuple[str, int, int], SinkRecord]
    ) -> None:
        self._config = config
        self._context = context
        self._put = put

    def configs(self) -> Any:
        return to_java_map(self._config)

    def assignment(self) -> Any:
        import jpype

        partition = jpype.JClass("org.apache.kafka.common.TopicPartition")
        found = jpype.java.util.HashSet()
        for each in self._context.assignment:
            found.add(partition(each.topic, each.partition))
        return found

    def offset(self, *wanted: Any) -> None:
        """Rewind one partition, or several given as a map."""
        if len(wanted) == 2:
            self._context.rewind({_partition(wanted[0]): int(wanted[1])})
        else:
            entries = wanted[0].entrySet()
            self._context.rewind({_partition(each.getKey()): int(each.getValue()) for each in entries})

    def timeout(self, _milliseconds: int) -> None:
        """Ignored: `errors.retry.delay.max.ms` determines the delay before records are put again."""

    def pause(self, *partitions: Any) -> None:
        self._context.pause([_partition(each) for each in _flat(partitions)])

    def resume(self, *partitions: Any) -> None:
        self._context.resume([_partition(each) for each in _flat(partitions)])

    def requestCommit(self) -> None:
        self._context.request_commit()

    def errantRecordReporter(self) -> Any:
        import jpype

        return jpype.JProxy(f"{_PACKAGE}.sink.ErrantRecordReporter", inst=_Reporter(self._context, self._put))

    def pluginMetrics(self) -> Any:
        return plugin_metrics()


def _partition(java: Any) -> TopicPartition:
    return TopicPartition(str(java.topic()), int(java.partition()))


def _flat(arguments: Sequence[Any]) -> list[Any]:
    """Flatten varargs, which arrive one by one or as one array."""
    return [*arguments[0]] if len(arguments) == 1 and hasattr(arguments[0], "__iter__") else [*arguments]


class _Reporter:
    def __init__(self, context: SinkTaskContext, put: Mapping[tuple[str, int, int], SinkRecord]) -> None:
        self._context = context
        self._put = put

    def report(self, record: Any, error: Any) -> Any:
        import jpype

        key = (str(record.topic()), int(record.kafkaPartition()), int(record.kafkaOffset()))
        found = self._put.get(key)
        if found is not None:
            self._context.report(found, ConnectError(str(error.getMessage() or error)))
        return jpype.java.util.concurrent.CompletableFuture.completedFuture(None)


class _ConnectorContext:
    def __init__(self, context: ConnectorContext) -> None:
        self._context = context
        self._reader = _reader(context.offset)

    def requestTaskReconfiguration(self) -> None:
        self._context.request_task_reconfiguration()

    def raiseError(self, error: Any) -> None:
        self._context.raise_error(ConnectError(str(error.getMessage() or error)))

    def offsetStorageReader(self) -> Any:
        return self._reader

    def pluginMetrics(self) -> Any:
        return plugin_metrics()


class _PluginMetrics:
    """Accepts the metrics of a plugin, but does not expose them."""

    def metricName(self, name: str, description: str, tags: Any) -> Any:
        import jpype

        return jpype.JClass("org.apache.kafka.common.MetricName")(name, "plugins", description, tags)

    def addMetric(self, *_: Any) -> None: ...

    def removeMetric(self, *_: Any) -> None: ...

    def addSensor(self, name: str) -> Any:
        import jpype

        metrics = jpype.JClass("org.apache.kafka.common.metrics.Metrics")()
        return metrics.sensor(name)

    def removeSensor(self, *_: Any) -> None: ...


def plugin_metrics() -> Any:
    import jpype

    return jpype.JProxy("org.apache.kafka.common.metrics.PluginMetrics", inst=_PluginMetrics())


def _reader(lookup: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]) -> Any:
    import jpype

    return jpype.JProxy(f"{_PACKAGE}.storage.OffsetStorageReader", inst=_OffsetReader(lookup))


def source_task_context(config: Config, context: SourceTaskContext) -> Any:
    import jpype

    return jpype.JProxy(
        f"{_PACKAGE}.source.SourceTaskContext", inst=_SourceTaskContext(config, _reader(context.offset))
    )


def sink_task_context(
    config: Config, context: SinkTaskContext, put: Mapping[tuple[str, int, int], SinkRecord]
) -> Any:
    import jpype

    return jpype.JProxy(
        f"{_PACKAGE}.sink.SinkTaskContext", inst=_SinkTaskContext(config, cast(_FullContext, context), put)
    )


def connector_context(context: ConnectorContext, is_source: bool) -> Any:
    import jpype

    name = "source.SourceConnectorContext" if is_source else "connector.ConnectorContext"
    return jpype.JProxy(f"{_PACKAGE}.{name}", inst=_ConnectorContext(context))
