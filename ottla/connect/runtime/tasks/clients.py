"""Client settings of a connector: the worker's, those under `producer.` or `consumer.`, and overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ottla.client.settings import Settings
from ottla.connect.config.config_def import ConfigError
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.tasks.task_spec import TaskSpec
from ottla.spark.options import SECURITY_OPTIONS, OptionError
from ottla.spark.sink.sink_options import SinkOptions, parse_sink_options

#: Supported settings of Kafka's producer. Other settings are ignored, as the Java client ignores unknown ones.
_PRODUCER = (
    *SECURITY_OPTIONS,
    "batch.size",
    "bootstrap.servers",
    "client.id",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delivery.timeout.ms",
    "request.timeout.ms",
    "retry.backoff.ms",
    "transaction.timeout.ms",
)
_API_SECONDS = 60.0
#: Connect's defaults for producers, which retry indefinitely.
_PRODUCER_DEFAULTS = {"delivery.timeout.ms": str(2**31 - 1), "transaction.timeout.ms": "60000"}


def client_properties(worker: WorkerConfig, config: Mapping[str, str], kind: str) -> dict[str, str]:
    """`kind` is producer, consumer or admin."""
    prefix = f"{kind}.override."
    overrides = {
        name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)
    }
    return {**worker.overridden(kind), **overrides}


def consumer_settings(worker: WorkerConfig, config: Mapping[str, str]) -> Settings:
    return Settings.from_properties(client_properties(worker, config, "consumer"), worker.client_id)


def metadata_max_age(worker: WorkerConfig, config: Mapping[str, str]) -> float:
    return int(client_properties(worker, config, "consumer").get("metadata.max.age.ms", "300000")) / 1000


def producer_options(worker: WorkerConfig, config: Mapping[str, str]) -> SinkOptions:
    given = {**_PRODUCER_DEFAULTS, **client_properties(worker, config, "producer")}
    options = {f"kafka.{name}": value for name, value in given.items() if name in _PRODUCER}
    try:
        parsed = parse_sink_options(options, streaming=True)
    except OptionError as error:
        raise ConfigError(error.message.replace("kafka.", "")) from None
    # Requests other than writes time out sooner.
    settings = replace(
        parsed.settings, api_timeout=_API_SECONDS, client_id=given.get("client.id", worker.client_id)
    )
    return replace(parsed, settings=settings, topic_timeout=_API_SECONDS)


def sink_group(spec: TaskSpec) -> str:
    """Return `connect-NAME`, unless the connector overrides it."""
    return spec.config.get("consumer.override.group.id") or f"connect-{spec.connector}"
