"""Options for writing: those of Spark's Kafka connector and of a producer, validated together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.client.settings import Settings
from ottla.monitoring.audit.counting import AUDIT_OPTIONS, BadAuditOption, Tier, parse_tier
from ottla.protocol.compression import Codec
from ottla.records.kernels import MAX_BATCH_BYTES
from ottla.spark.checkpoints import location
from ottla.spark.formats.encryption_options import FIELDS, KEYS, Encryption, parse_encryption
from ottla.spark.formats.registered.registry_options import REGISTRY_OPTIONS, SCHEMA_OPTIONS
from ottla.spark.formats.registered.writing import WRITE_OPTIONS, Encoding, parse_encoding
from ottla.spark.options import SECURITY_OPTIONS, KnownOptions, OptionError, Options

# fmt: off
_KNOWN = KnownOptions(
    # checkpointLocation and queryName belong to Spark. includeHeaders is a source option, ignored here.
    (
        "topic", "ottla.delivery", "partitionColumn", "failOnDataLoss", "includeHeaders", "checkpointLocation",
        "queryName", KEYS, FIELDS, *AUDIT_OPTIONS, *REGISTRY_OPTIONS, *SCHEMA_OPTIONS, *WRITE_OPTIONS,
    ),
    kafka=(
        *SECURITY_OPTIONS,
        "acks", "batch.size", "bootstrap.servers", "client.id", "compression.gzip.level", "compression.lz4.level",
        "compression.type", "compression.zstd.level", "delivery.timeout.ms", "enable.idempotence", "max.block.ms",
        "request.timeout.ms", "retry.backoff.ms", "transaction.timeout.ms",
    ),
    # This producer receives whole columns.
    without_effect=(
        "buffer.memory", "client.dns.lookup", "connections.max.idle.ms", "linger.ms",
        "max.in.flight.requests.per.connection", "max.request.size", "metadata.max.age.ms", "metadata.max.idle.ms",
        "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retries", "retry.backoff.max.ms",
        "send.buffer.bytes",
    ),
    refused={
        "interceptor.classes": "there are no interceptors",
        "key.serializer": "use keyFormat, or DataFrame functions to make strings or bytes of keys",
        "partitioner.class": "rows go by their key, or where the column 'partition' says",
        "transactional.id": "with ottla.delivery=exactly-once each task has a name of its own",
        "value.serializer": "use valueFormat, or DataFrame functions to make strings or bytes of values",
    },
    no_path="save() and start() take no path: name the topic with .option('topic', …).",
    purpose=" for writing",
)
# fmt: on

_CODECS = {codec.name.lower(): codec for codec in Codec}
_ALL = -1
_ACKS = {"all": _ALL, "-1": _ALL, "1": 1}
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
    #: Time limit for retrying a batch or a commit.
    delivery_timeout: float = 120.0
    #: How long to wait for a missing topic, which the broker may be about to create.
    topic_timeout: float = 10.0
    #: Whether the rows of a batch become visible together and exactly once.
    exactly_once: bool = False
    #: The brokers' default maximum.
    transaction_timeout_ms: int = 900_000
    #: Whether lost transactions end the query.
    fail_on_data_loss: bool = True
    #: Column that determines the partition instead of the key.
    partition_column: str | None = None
    #: Checkpoint location, if set for this query.
    checkpoint: str = ""
    #: Encryption of values.
    encryption: Encryption | None = None
    #: Encodings of keys and values other than text and bytes.
    key_encoding: Encoding | None = None
    value_encoding: Encoding | None = None
    #: Tier under which the audit counts rows.
    audit: Tier | None = None


def parse_sink_options(options: Mapping[str, str], *, streaming: bool = False) -> SinkOptions:
    """Parse the options. Streams default to exactly-once, batches to at-least-once."""
    given = Options(options, _KNOWN)
    settings = given.client_settings()
    topic = given.text("topic")
    if topic is not None and not topic.strip():
        raise OptionError("Option 'topic' is empty: name the topic, or omit it and have a column 'topic'.")
    codec = given.choice("kafka.compression.type", _CODECS, Codec.NONE)
    acks = given.choice("kafka.acks", _ACKS, _ALL)
    idempotent = given.flag("kafka.enable.idempotence", acks == _ALL)
    if idempotent and acks != _ALL:
        raise OptionError("kafka.enable.idempotence=true needs kafka.acks=all.")
    exactly_once = given.choice("ottla.delivery", _DELIVERIES, streaming)
    if exactly_once and not idempotent:
        wrong = "kafka.acks=1" if acks != _ALL else "kafka.enable.idempotence=false"
        raise OptionError(
            f"{wrong} cannot be exactly-once, which is how streams are written: omit it, or say "
            "ottla.delivery=at-least-once."
        )
    checkpoint = given.text("checkpointLocation")
    delivery_timeout = given.seconds("kafka.delivery.timeout.ms", 120_000)
    return SinkOptions(
        settings=replace(settings, api_timeout=delivery_timeout),
        topic=topic,
        codec=codec,
        level=_level(given, codec),
        batch_bytes=given.count("kafka.batch.size") or MAX_BATCH_BYTES,
        acks=acks,
        idempotent=idempotent,
        delivery_timeout=delivery_timeout,
        topic_timeout=given.seconds("kafka.max.block.ms", 10_000),
        exactly_once=exactly_once,
        transaction_timeout_ms=given.count("kafka.transaction.timeout.ms") or 900_000,
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        partition_column=given.text("partitionColumn"),
        checkpoint=location(checkpoint) if checkpoint else "",
        encryption=parse_encryption(given),
        key_encoding=parse_encoding(given, "key"),
        value_encoding=parse_encoding(given, "value"),
        audit=_audit(given),
    )


def _audit(given: Options) -> Tier | None:
    values = {name: text for name in AUDIT_OPTIONS if (text := given.text(name)) is not None}
    try:
        return parse_tier(values, "spark")
    except BadAuditOption as error:
        raise OptionError(str(error)) from None


def _level(given: Options, codec: Codec) -> int | None:
    name = f"kafka.compression.{codec.name.lower()}.level"
    text = given.text(name)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise OptionError(f"{name} must be a whole number, not '{text}'.") from None
