"""``python -m bench.codec``: microseconds to decode and encode messages, beside kio and kafka-python.

Also the speed of reading and writing records. Every figure is the best of several rounds.
"""

from __future__ import annotations

import io
import timeit
import uuid
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.table import Table

from ottla.protocol.compression import Codec
from ottla.protocol.messages import cluster, fetch, produce
from ottla.protocol.records import (
    Record,
    build_batch,
    check_crc,
    first_at_or_after,
    keys_present,
    read_batch,
    read_header,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.consumer import FetchResponse as TheirFetchResponse
    from kafka.protocol.metadata import MetadataResponse as TheirMetadataResponse
    from kafka.protocol.producer import ProduceRequest as TheirProduceRequest
    from kafka.protocol.producer import ProduceResponse as TheirProduceResponse

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.default_records import DefaultRecordBatch as TheirRecordBatch
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.fetch.v12 import response as kio_fetch
from kio.schema.metadata.v12 import response as kio_metadata
from kio.schema.produce.v9 import request as kio_produce_request
from kio.schema.produce.v9 import response as kio_produce
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta, i64

ROUNDS = 9
SECONDS_PER_ROUND = 0.05

Row = tuple[str, Callable[[], Any], Callable[[], Any] | None, Callable[[], Any] | None]


def microseconds(work: Callable[[], Any]) -> float:
    work()
    timer = timeit.Timer(work)
    number = max(1, int(SECONDS_PER_ROUND / max(timer.timeit(3) / 3, 1e-7)))
    return min(timer.repeat(ROUNDS, number)) / number * 1e6


# Produce


def produce_rows() -> list[Row]:
    rows: list[Row] = []
    for title, size in (("16 KB", 16 * 1024), ("1 MiB", 1024 * 1024)):
        wire = produce.ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                produce.TopicProduceData(
                    name="events",
                    partition_data=[produce.PartitionProduceData(index=0, records=bytes(size))],
                )
            ],
        ).encode(9)
        view = memoryview(bytearray(wire))
        read = entity_reader(kio_produce_request.ProduceRequest)
        rows.append(
            (
                f"decode Produce v9, {title}",
                lambda view=view: produce.ProduceRequest.decode(view, 9),
                lambda wire=wire, read=read: read(wire, 0),
                lambda wire=wire: TheirProduceRequest.decode(wire, version=9),
            )
        )
    rows.append(
        (
            "build and encode ProduceResponse v9",
            lambda: our_produce_response().encode(9),
            lambda: kio_encode(kio_produce_response()),
            lambda: kafka_python_produce_response().encode(version=9),
        )
    )
    return rows


def our_produce_response() -> produce.ProduceResponse:
    return produce.ProduceResponse(
        responses=[
            produce.TopicProduceResponse(
                name="events",
                partition_responses=[produce.PartitionProduceResponse(index=0, base_offset=1234)],
            )
        ]
    )


def kio_produce_response() -> kio_produce.ProduceResponse:
    return kio_produce.ProduceResponse(
        responses=(
            kio_produce.TopicProduceResponse(
                name=TopicName("events"),
                partition_responses=(
                    kio_produce.PartitionProduceResponse(
                        index=i32(0),
                        error_code=KioErrorCode.none,
                        base_offset=i64(1234),
                        log_append_time=None,
                        log_start_offset=i64(-1),
                        record_errors=(),
                        error_message=None,
                    ),
                ),
            ),
        ),
        throttle_time=i32Timedelta.parse(timedelta(0)),
    )


def kafka_python_produce_response() -> Any:
    topic = TheirProduceResponse.TopicProduceResponse
    return TheirProduceResponse(
        version=9,
        responses=[
            topic(
                version=9,
                name="events",
                partition_responses=[
                    topic.PartitionProduceResponse(
                        version=9,
                        index=0,
                        error_code=0,
                        base_offset=1234,
                        log_append_time_ms=-1,
                        log_start_offset=-1,
                        record_errors=[],
                        error_message=None,
                    )
                ],
            )
        ],
        throttle_time_ms=0,
    )


# Fetch and Metadata: encoding alone, of what the others decoded from our bytes


def our_fetch_response() -> fetch.FetchResponse:
    return fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(
                topic="events",
                partitions=[
                    fetch.PartitionData(
                        partition_index=index,
                        high_watermark=1000,
                        last_stable_offset=1000,
                        log_start_offset=0,
                        aborted_transactions=[],
                        records=b"r" * 1000,
                    )
                    for index in range(10)
                ],
            )
        ]
    )


def our_metadata_response() -> cluster.MetadataResponse:
    return cluster.MetadataResponse(
        brokers=[cluster.MetadataResponseBroker(node_id=n, host=f"host-{n}", port=9092) for n in range(3)],
        cluster_id="9KlrFrArTkW0uJsAVJtYKQ",
        controller_id=1,
        topics=[
            cluster.MetadataResponseTopic(
                name=f"topic-{topic}",
                topic_id=uuid.UUID(int=topic + 1).bytes,
                partitions=[
                    cluster.MetadataResponsePartition(
                        partition_index=index,
                        leader_id=index % 3,
                        leader_epoch=5,
                        replica_nodes=[0, 1, 2],
                        isr_nodes=[0, 1, 2],
                        offline_replicas=[],
                    )
                    for index in range(12)
                ],
            )
            for topic in range(10)
        ],
    )


def encode_rows() -> list[Row]:
    rows: list[Row] = []
    for title, build, kio_class, their_class in (
        ("FetchResponse v12, 10 partitions", our_fetch_response, kio_fetch.FetchResponse, TheirFetchResponse),
        (
            "MetadataResponse v12, 10 by 12",
            our_metadata_response,
            kio_metadata.MetadataResponse,
            TheirMetadataResponse,
        ),
    ):
        ours = build()
        wire = ours.encode(12)
        our_class = type(ours)
        kio_read = entity_reader(kio_class)
        kios, _ = kio_read(wire, 0)
        theirs = their_class.decode(wire, version=12)
        theirs._header = None
        assert kio_encode(kios) == bytes(theirs.encode(version=12)) == wire
        rows.append((f"build and encode {title}", lambda build=build: build().encode(12), None, None))
        rows.append(
            (
                f"encode {title}",
                lambda ours=ours: ours.encode(12),
                lambda kios=kios: kio_encode(kios),
                lambda theirs=theirs: theirs.encode(version=12),
            )
        )
        rows.append(
            (
                f"decode {title}",
                lambda wire=wire, cls=our_class: cls.decode(wire, 12),
                lambda wire=wire, read=kio_read: read(wire, 0),
                lambda wire=wire, cls=their_class: cls.decode(wire, version=12),
            )
        )
    return rows


def kio_encode(message: Any) -> bytes:
    written = io.BytesIO()
    entity_writer(type(message))(written, message)
    return written.getvalue()


# Records


def record_rows() -> list[tuple[str, float, str]]:
    count = 10_000
    records = [Record(0, 1_700_000_000_000 + n // 10, b"key-%05d" % n, b"v" * 100) for n in range(count)]
    batch = build_batch(records)
    header = read_header(batch)
    wire = bytes(batch)

    def rate(work: Callable[[], Any]) -> float:
        return count / microseconds(work)

    def aiokafka_builds() -> None:
        builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 30)
        for n, record in enumerate(records):
            builder.append(n, record.timestamp, record.key, record.value, [])
        builder.build()

    rows = [
        ("build_batch", rate(lambda: build_batch(records)), "M records/s"),
        ("  aiokafka (compiled)", rate(aiokafka_builds), "M records/s"),
        ("read_batch", rate(lambda: read_batch(batch)), "M records/s"),
        ("  aiokafka (compiled)", rate(lambda: list(DefaultRecordBatch(wire))), "M records/s"),
        ("  kafka-python", rate(lambda: list(TheirRecordBatch(wire))), "M records/s"),
        ("keys_present", rate(lambda: keys_present(batch)), "M records/s"),
        ("first_at_or_after, last record", rate(lambda: first_at_or_after(batch, 1 << 60)), "M records/s"),
        ("read_header", microseconds(lambda: read_header(batch)), "µs"),
        ("check_crc", len(batch) / microseconds(lambda: check_crc(batch, 0, header)) / 1000, "GB/s"),
    ]
    for codec in list(Codec)[1:]:
        compressed = build_batch(records, codec=codec)
        rows.append(
            (f"read_batch, {codec.name.lower()}", rate(lambda c=compressed: read_batch(c)), "M records/s")
        )
        rows.append(
            (
                f"build_batch, {codec.name.lower()}",
                rate(lambda c=codec: build_batch(records, codec=c)),
                "M records/s",
            )
        )
    return rows


def main() -> None:
    console = Console()
    table = Table("µs", "Ottla", "kio", "kafka-python", title="Messages")
    for column in table.columns[1:]:
        column.justify = "right"
    for title, *contestants in [*produce_rows(), *encode_rows()]:
        cells = ["" if work is None else f"{microseconds(work):.1f}" for work in contestants]
        table.add_row(title, *cells)
    console.print(table)
    table = Table("10,000 records of 110 bytes", "", "", title="Record batches")
    table.columns[1].justify = "right"
    for title, figure, unit in record_rows():
        table.add_row(title, f"{figure:.2f}", unit)
    console.print(table)


if __name__ == "__main__":
    main()
