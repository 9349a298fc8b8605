"""Every option that the data source knows, so that a misspelt one is refused instead of ignored."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ottla.client.errors import ClientError


class OptionError(ClientError):
    """Options that are unknown, that contradict each other or that have no meaning here."""


STRATEGIES = ("assign", "subscribe", "subscribePattern")

SOURCE_OPTIONS = (
    *STRATEGIES,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "ottla.commit.group",
    "keyFormat",
    "keySchema",
    "valueFormat",
    "valueSchema",
    "badRows",
    "deadLetterTopic",
    "timeZone",
)

#: Who the client is, and how it proves that: the same for reading and for writing.
SECURITY_OPTIONS = (
    "enable.ssl.certificate.verification",
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.type",
)

#: Options of a consumer that mean something to this one.
CONSUMER_OPTIONS = (
    *SECURITY_OPTIONS,
    "bootstrap.servers",
    "client.id",
    "default.api.timeout.ms",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.id",
    "isolation.level",
    "max.partition.fetch.bytes",
    "request.timeout.ms",
    "retry.backoff.ms",
)

#: Of the Java consumer, without a meaning for one that joins no group and keeps no buffers: taken and not used.
_WITHOUT_EFFECT = (
    "allow.auto.create.topics",
    "check.crcs",
    "client.dns.lookup",
    "client.rack",
    "connections.max.idle.ms",
    "exclude.internal.topics",
    "fetch.max.bytes",
    "group.instance.id",
    "group.protocol",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "max.poll.records",
    "metadata.max.age.ms",
    "partition.assignment.strategy",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retry.backoff.max.ms",
    "send.buffer.bytes",
    "session.timeout.ms",
)

#: Refused by Spark's connector too, with what to use instead.
_REFUSED = {
    "auto.offset.reset": "use startingOffsets",
    "enable.auto.commit": "offsets are kept in the checkpoint; with kafka.group.id they are committed as well",
    "interceptor.classes": "there are no interceptors",
    "key.deserializer": "use keyFormat, or DataFrame functions on the column",
    "value.deserializer": "use valueFormat, or DataFrame functions on the column",
}

_BY_LOWER_CASE = {name.lower(): name for name in SOURCE_OPTIONS}


def check_names(names: Iterable[str]) -> None:
    """`names` are in lower case, as Spark hands them over."""
    for name in sorted(names):
        if name in _BY_LOWER_CASE:
            continue
        if name == "path":
            raise OptionError("load() takes no path: name the topic with .option('subscribe', …).")
        if not name.startswith("kafka."):
            known = [*_BY_LOWER_CASE, *(f"kafka.{each}" for each in CONSUMER_OPTIONS)]
            raise OptionError(f"There is no option '{name}'.{_guess(name, known)}")
        consumer = name.removeprefix("kafka.")
        if consumer in _REFUSED:
            raise OptionError(f"Option '{name}' cannot be used: {_REFUSED[consumer]}.")
        if consumer.startswith("sasl.") and consumer not in CONSUMER_OPTIONS:
            raise OptionError(f"Option '{name}' cannot be used: of SASL only PLAIN and SCRAM are spoken.")
        if consumer not in CONSUMER_OPTIONS and consumer not in _WITHOUT_EFFECT:
            guess = _guess(name, [f"kafka.{each}" for each in CONSUMER_OPTIONS])
            raise OptionError(f"There is no option '{name}'.{guess}")


def _guess(name: str, known: list[str]) -> str:
    [*close] = difflib.get_close_matches(name, known, n=1)
    if not close:
        return ""
    return f" Did you mean '{_BY_LOWER_CASE.get(close[0], close[0])}'?"
