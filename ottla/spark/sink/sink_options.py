"""The options of the sink: those of Spark's Kafka connector and of a producer, checked as a whole."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ottla.client.settings import Settings
from ottla.protocol.compression import Codec
from ottla.spark.kernels import MAX_BATCH_BYTES
from ottla.spark.options import client_settings
from ottla.spark.source.option_names import SECURITY_OPTIONS, OptionError

T = TypeVar("T")

#: checkpointLocation and queryName are Spark's own; includeHeaders is said to a source, and a sink need not mind.
SINK_OPTIONS = (
    "topic",
    "ottla.delivery",
    "partitionColumn",
    "failOnDataLoss",
    "includeHeaders",
    "checkpointLocation",
    "queryName",
)

#: Options of a producer that mean something to this one.
PRODUCER_OPTIONS = (
    *SECURITY_OPTIONS,
    "acks",
    "batch.size",
    "bootstrap.servers",
    "client.id",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delivery.timeout.ms",
    "enable.idempotence",
    "max.block.ms",
    "request.timeout.ms",
    "retry.backoff.ms",
    "transaction.timeout.ms",
)

#: Of the Java producer, without a meaning for one that is handed whole columns: taken and not used.
_WITHOUT_EFFECT = (
    "buffer.memory",
    "client.dns.lookup",
    "connections.max.idle.ms",
    "linger.ms",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "metadata.max.age.ms",
    "metadata.max.idle.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retries",
    "retry.backoff.max.ms",
    "send.buffer.bytes",
)

_REFUSED = {
    "interceptor.classes": "there are no interceptors",
    "key.serializer": "keys are written as they are; use DataFrame functions to make strings or bytes of them",
    "partitioner.class": "rows go by their key, or where the column 'partition' says",
    "transactional.id": "with ottla.delivery=exactly-once each task has a name of its own",
    "value.serializer": "values are written as they are; use DataFrame functions to make strings or bytes of them",
}

_CODECS = {codec.name.lower(): codec for codec in Codec}
_ALL = -1
_ACKS = {"all": _ALL, "-1": _ALL, "1": 1}
_BOOLEANS = {"true": True, "false": False}
_DELIVERIES = {"exactly-once": True, "at-least-once": False}


@dataclass(frozen=True)
class SinkOptions:
    settings: Settings
    topic: str | None
    codec: Codec = Codec.NONE
    level: int | None = None
    batch_bytes: int = MAX_BATCH_BYTES
    acks: int = _ALL
    idempotent: bool = True
    #: For how long a batch is tried again, and a commit.
    delivery_timeout: float = 120.0
    #: For how long a topic that is not there is waited for: the broker may be about to create it.
    topic_timeout: float = 10.0
    #: Whether what a task writes becomes visible with the whole batch, and once.
    exactly_once: bool = False
    #: The longest that brokers allow by default.
    transaction_timeout_ms: int = 900_000
    #: Whether transactions that are lost after all end the query.
    fail_on_data_loss: bool = True
    #: The column that decides the partition, if it is not the key.
    partition_column: str | None = None


def parse_sink_options(options: Mapping[str, str], *, streaming: bool = False) -> SinkOptions:
    """A stream is written exactly once unless the options say otherwise; a batch only if they say so."""
    given = {name.lower(): value for name, value in options.items()}
    _check_names(given)
    kafka = {name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")}
    settings = client_settings(kafka)
    topic = given.get("topic")
    if topic is not None and not topic.strip():
        raise OptionError(
            "Option 'topic' is empty: name the topic, or leave it away and have a column 'topic'."
        )
    codec = _choice(kafka, "compression.type", _CODECS, Codec.NONE)
    acks = _choice(kafka, "acks", _ACKS, _ALL)
    idempotent = _choice(kafka, "enable.idempotence", _BOOLEANS, acks == _ALL)
    if idempotent and acks != _ALL:
        raise OptionError("kafka.enable.idempotence=true needs kafka.acks=all.")
    exactly_once = _choice(given, "ottla.delivery", _DELIVERIES, streaming, prefix="")
    if exactly_once and not idempotent:
        wrong = "kafka.acks=1" if acks != _ALL else "kafka.enable.idempotence=false"
        raise OptionError(
            f"{wrong} cannot be exactly-once, which is how streams are written: leave it away, or say "
            "ottla.delivery=at-least-once."
        )
    delivery_timeout = _count(kafka, "delivery.timeout.ms", 120_000) / 1000
    return SinkOptions(
        settings=replace(settings, api_timeout=delivery_timeout),
        topic=topic,
        codec=codec,
        level=_level(kafka, codec),
        batch_bytes=_count(kafka, "batch.size", MAX_BATCH_BYTES),
        acks=acks,
        idempotent=idempotent,
        delivery_timeout=delivery_timeout,
        topic_timeout=_count(kafka, "max.block.ms", 10_000) / 1000,
        exactly_once=exactly_once,
        transaction_timeout_ms=_count(kafka, "transaction.timeout.ms", 900_000),
        fail_on_data_loss=_choice(given, "failondataloss", _BOOLEANS, True, prefix=""),
        partition_column=given.get("partitioncolumn"),
    )


def _choice(
    options: Mapping[str, str], name: str, choices: Mapping[str, T], default: T, *, prefix: str = "kafka."
) -> T:
    text = options.get(name)
    if text is None:
        return default
    found = choices.get(text.strip().lower())
    if found is None:
        *most, last = choices
        raise OptionError(f"{prefix}{name} must be {', '.join(most)} or {last}, not '{text}'.")
    return found


def _count(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default)).strip()
    if not text.isdigit() or int(text) == 0:
        raise OptionError(f"kafka.{name} must be a whole number above 0, not '{text}'.")
    return int(text)


def _level(options: Mapping[str, str], codec: Codec) -> int | None:
    name = f"compression.{codec.name.lower()}.level"
    text = options.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"kafka.{name} must be a whole number, not '{text}'.") from None


def _check_names(names: Mapping[str, str]) -> None:
    plain = {name.lower(): name for name in SINK_OPTIONS}
    for name in sorted(names):
        producer = name.removeprefix("kafka.")
        if name in plain:
            continue
        if name == "path":
            raise OptionError("save() and start() take no path: name the topic with .option('topic', …).")
        if name.startswith("kafka."):
            if producer in PRODUCER_OPTIONS or producer in _WITHOUT_EFFECT:
                continue
            if producer in _REFUSED:
                raise OptionError(f"Option '{name}' cannot be used: {_REFUSED[producer]}.")
            if producer.startswith("sasl."):
                raise OptionError(f"Option '{name}' cannot be used: of SASL only PLAIN and SCRAM are spoken.")
        known = [*plain, *(f"kafka.{each}" for each in PRODUCER_OPTIONS)]
        close = difflib.get_close_matches(name, known, n=1)
        guess = f" Did you mean '{plain.get(close[0], close[0])}'?" if close else ""
        raise OptionError(f"There is no option '{name}' for writing.{guess}")
