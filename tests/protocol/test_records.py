"""Record batches, compatible with other implementations in both directions."""

from __future__ import annotations

import datetime
import io

import kafka.record.default_records as kafka_python
import kafka.record.legacy_records as kafka_python_legacy
import pytest
from aiokafka.record import default_records as aiokafka
from aiokafka.record import legacy_records as aiokafka_legacy
from hypothesis import given
from hypothesis import strategies as st
from kio.records import readers as kio_readers
from kio.records import schema as kio_schema
from kio.records import writers as kio_writers

from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.record_format import all_keyed, framing_fault, survey
from ottla.protocol.records import (
    BATCH_OVERHEAD,
    CREATE_TIME,
    LOG_APPEND_TIME,
    BatchHeader,
    Record,
    batch_body,
    build_batch,
    check_crc,
    first_at_or_after,
    max_timestamp_record,
    read_batch,
    read_header,
    read_records,
    recompress,
    record_timestamps,
)

CODECS = list(Codec)

int16s = st.integers(-1, 2**15 - 1)
int32s = st.integers(-1, 2**31 - 1)
int64s = st.integers(-1, 2**62)
blobs = (
    st.none()
    | st.binary(max_size=20)
    | st.builds(lambda n: b"x" * n, st.sampled_from([63, 64, 8191, 8192, 20_000]))
)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
# `numbered` fills in the offsets.
records_of_any_kind = st.builds(
    Record,
    offset=st.just(0),
    timestamp=st.integers(-1, 2**43) | int64s,
    key=blobs,
    value=blobs,
    headers=st.lists(st.tuples(names, blobs), max_size=3).map(lambda headers: headers or ()),
)
record_lists = st.lists(records_of_any_kind, min_size=1, max_size=8)


def numbered(records: list[Record], base_offset: int = 0) -> list[Record]:
    return [
        Record(base_offset + index, record.timestamp, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    ]


SOME = [
    Record(0, 1_700_000_000_000, b"key", b"value", [("trace", b"\x00\x01"), ("empty", None)]),
    Record(1, 1_700_000_000_050, None, b"v" * 300),
    Record(2, 1_699_999_999_000, b"k" * 100, None),
    Record(3, 1_700_000_000_050, b"", b""),
]


# Round trips


@given(
    records=record_lists,
    base_offset=st.integers(0, 2**62),
    codec=st.sampled_from(CODECS),
    producer=st.tuples(int64s, int16s, int32s),
    epoch=int32s,
    transactional=st.booleans(),
    control=st.booleans(),
)
def test_a_batch_comes_back_as_it_was_built(
    records: list[Record],
    base_offset: int,
    codec: Codec,
    producer: tuple[int, int, int],
    epoch: int,
    transactional: bool,
    control: bool,
) -> None:
    batch = build_batch(
        records,
        base_offset=base_offset,
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        partition_leader_epoch=epoch,
        transactional=transactional,
        control=control,
    )
    header = read_header(batch)
    assert header == BatchHeader(
        base_offset=base_offset,
        batch_length=len(batch) - 12,
        partition_leader_epoch=epoch,
        magic=2,
        crc=header.crc,
        attributes=codec | transactional << 4 | control << 5,
        last_offset_delta=len(records) - 1,
        base_timestamp=records[0].timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        record_count=len(records),
    )
    assert (header.codec, header.is_transactional, header.is_control) == (codec, transactional, control)
    assert header.size == len(batch)
    assert header.last_offset == base_offset + len(records) - 1
    assert header.next_offset == header.last_offset + 1
    assert check_crc(batch, 0, header)
    assert read_batch(batch) == numbered(records, base_offset)


@given(records=record_lists, junk=st.binary(max_size=30), codec=st.sampled_from(CODECS))
def test_a_batch_is_read_wherever_it_lies(records: list[Record], junk: bytes, codec: Codec) -> None:
    buffer = memoryview(junk + build_batch(records, codec=codec) + junk)
    assert check_crc(buffer, len(junk), read_header(buffer, len(junk)))
    assert read_batch(buffer, len(junk)) == numbered(records)


def test_header_keys_that_are_not_utf8_come_out_as_they_went_in() -> None:
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    batch = build_batch([Record(0, 0, None, None, [(name, b"x")])])
    assert b"\xff\xfe" in batch
    assert read_batch(batch)[0].headers == [(name, b"x")]


def test_offsets_with_gaps_are_kept_on_request() -> None:
    records = [Record(offset, 5, b"k", b"v") for offset in (7, 9, 300)]
    batch = build_batch(records, base_offset=5, keep_offsets=True)
    assert read_batch(batch) == records
    assert read_header(batch).last_offset == 300


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = build_batch(SOME, timestamp_type=LOG_APPEND_TIME)
    assert read_header(batch).timestamp_type == LOG_APPEND_TIME
    assert {record.timestamp for record in read_batch(batch)} == {1_700_000_000_050}
    assert read_header(build_batch(SOME)).timestamp_type == CREATE_TIME


def test_sequences_start_again_after_the_largest() -> None:
    batch = build_batch(SOME, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert read_header(batch).last_sequence == 1
    assert read_header(build_batch(SOME)).last_sequence == -1


def test_base_offset_and_leader_epoch_are_outside_the_checksum() -> None:
    batch = build_batch(SOME)
    batch[:8] = (77).to_bytes(8, "big")
    batch[12:16] = (5).to_bytes(4, "big")
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert [record.offset for record in read_batch(batch)] == [77, 78, 79, 80]


def test_a_flipped_bit_breaks_the_checksum() -> None:
    batch = build_batch(SOME)
    for index in range(21, len(batch)):
        batch[index] ^= 1
        assert not check_crc(batch, 0, read_header(batch))
        batch[index] ^= 1


def test_a_checksum_of_a_batch_that_is_cut_off_does_not_hold() -> None:
    batch = build_batch(SOME)
    assert not check_crc(batch[:-1], 0, read_header(batch))


def test_a_batch_that_the_cleaner_emptied_has_no_records() -> None:
    batch = bytearray(build_batch(SOME, codec=Codec.LZ4)[:BATCH_OVERHEAD])
    batch[8:12] = (BATCH_OVERHEAD - 12).to_bytes(4, "big")
    batch[57:61] = bytes(4)
    assert read_batch(batch) == []
    assert keys_present(batch)
    assert first_at_or_after(batch, 0) is None
    assert max_timestamp_record(batch) is None


# Several batches in one buffer


def test_a_last_batch_that_is_cut_off_is_left_out() -> None:
    first = build_batch(SOME[:1], base_offset=10)
    second = build_batch(SOME[:2], base_offset=11, codec=Codec.ZSTD)
    whole = first + second
    for end in range(len(whole) + 1):
        found = [header.base_offset for header, _ in read_records(whole[:end])]
        assert found == [offset for offset, size in ((10, len(first)), (11, len(whole))) if end >= size]


def test_batches_are_read_one_after_another() -> None:
    buffer = b"".join(
        build_batch(SOME, base_offset=base, codec=codec) for base, codec in ((0, 0), (4, 2), (8, 4))
    )
    assert [record.offset for _, records in read_records(buffer) for record in records] == list(range(12))


# The log's view of a batch


def keys_present(batch: bytes | bytearray) -> bool:
    header = read_header(batch)
    body = batch_body(batch, 0, header)
    by_survey = all(has_key for _, has_key, _ in survey(body, header))
    assert all_keyed(body, header.record_count) == by_survey
    return by_survey


@given(records=record_lists, codec=st.sampled_from(CODECS))
def test_a_survey_sees_what_is_in_the_records(records: list[Record], codec: Codec) -> None:
    batch = build_batch(records, codec=codec)
    header = read_header(batch)
    body = batch_body(batch, 0, header)
    found = list(survey(body, header))
    assert [timestamp for timestamp, _, _ in found] == [record.timestamp for record in records]
    assert sum(size for _, _, size in found) < len(body)
    assert framing_fault(body, 0, len(records), in_full=9, by_length=99) is None
    assert framing_fault(body, 0, len(records) + 1, in_full=9, by_length=99) is not None
    assert framing_fault(body[:-1], 0, len(records), in_full=9, by_length=99) is not None


@pytest.mark.parametrize("codec", CODECS)
def test_missing_keys_are_seen(codec: Codec) -> None:
    keyed = [Record(0, 1_000 * index, b"k" * index, b"v" * 1000) for index in range(100)]
    assert keys_present(build_batch(keyed, codec=codec))
    for index in (0, 50, 99):
        keyless = list(keyed)
        keyless[index] = Record(0, 0, None, b"v")
        assert not keys_present(build_batch(keyless, codec=codec))


@given(records=record_lists, codec=st.sampled_from(CODECS))
def test_keys_are_present_if_no_key_is_null(records: list[Record], codec: Codec) -> None:
    assert keys_present(build_batch(records, codec=codec)) == all(
        record.key is not None for record in records
    )


@given(
    records=record_lists, codec=st.sampled_from(CODECS), kind=st.sampled_from([CREATE_TIME, LOG_APPEND_TIME])
)
def test_lookups_by_time_agree_with_the_records(records: list[Record], codec: Codec, kind: int) -> None:
    batch = build_batch(records, base_offset=100, codec=codec, timestamp_type=kind)
    found = [(record.offset, record.timestamp) for record in read_batch(batch)]
    for _, timestamp in found:
        for wanted in (timestamp - 1, timestamp, timestamp + 1):
            assert first_at_or_after(batch, wanted) == next(
                (pair for pair in found if pair[1] >= wanted), None
            )
    assert list(record_timestamps(batch)) == found
    largest = max(timestamp for _, timestamp in found)
    expected = next(pair for pair in found if pair[1] == largest)
    assert max_timestamp_record(batch) == (None if largest == -1 else expected)


@given(records=record_lists, before=st.sampled_from(CODECS), after=st.sampled_from(CODECS))
def test_recompressing_changes_nothing_but_the_codec(
    records: list[Record], before: Codec, after: Codec
) -> None:
    batch = build_batch(
        records, base_offset=9, codec=before, producer_id=5, producer_epoch=1, base_sequence=3
    )
    changed = recompress(batch, after)
    assert changed == build_batch(
        records, base_offset=9, codec=after, producer_id=5, producer_epoch=1, base_sequence=3
    )
    assert check_crc(changed, 0, read_header(changed))


# Other implementations as oracles


def their_batch(builder_class: type, records: list[Record], codec: int) -> bytes:
    builder = builder_class(2, codec, False, 4, 2, 7, 1 << 30)
    for index, record in enumerate(records):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    return bytes(builder.build())


def as_they_see(batch: bytes, reader_class: type) -> list[Record]:
    reader = reader_class(batch)
    assert reader.validate_crc()
    return [Record(r.offset, r.timestamp, r.key, r.value, r.headers or ()) for r in reader]


AIOKAFKA = aiokafka.DefaultRecordBatchBuilder, aiokafka.DefaultRecordBatch
KAFKA_PYTHON = kafka_python.DefaultRecordBatchBuilder, kafka_python.DefaultRecordBatch
PEERS = [
    *(pytest.param(*AIOKAFKA, codec, id=f"aiokafka-{codec.name}") for codec in CODECS),
    # Its other codecs need additional packages.
    *(pytest.param(*KAFKA_PYTHON, codec, id=f"kafka-python-{codec.name}") for codec in CODECS[:2]),
]


@pytest.mark.parametrize(("builder", "reader", "codec"), PEERS)
@given(records=record_lists)
def test_other_clients_read_what_we_write(
    builder: type, reader: type, codec: Codec, records: list[Record]
) -> None:
    assert as_they_see(bytes(build_batch(records, codec=codec)), reader) == numbered(records)


@pytest.mark.parametrize(("builder", "reader", "codec"), PEERS)
@given(records=record_lists)
def test_we_read_what_other_clients_write(
    builder: type, reader: type, codec: Codec, records: list[Record]
) -> None:
    records[0].timestamp = max(records[0].timestamp, 0)  # aiokafka treats -1 as "not set yet"
    batch = their_batch(builder, records, codec)
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 2, 7)
    assert read_batch(batch) == numbered(records)


@pytest.mark.parametrize(
    "builder", [aiokafka.DefaultRecordBatchBuilder, kafka_python.DefaultRecordBatchBuilder]
)
@given(records=record_lists)
def test_uncompressed_batches_are_the_same_to_the_last_byte(builder: type, records: list[Record]) -> None:
    records[0].timestamp = max(records[0].timestamp, 0)
    theirs = their_batch(builder, records, Codec.NONE)
    ours = build_batch(records, producer_id=4, producer_epoch=2, base_sequence=7)
    ours[12:16] = theirs[12:16]  # the client's leader epoch is meaningless
    assert ours == theirs


@given(records=st.lists(records_of_any_kind, min_size=1, max_size=4))
def test_kio_reads_and_writes_the_same_batches(records: list[Record]) -> None:
    records = [
        Record(0, record.timestamp % 2**32 // 1000 * 1000, record.key, record.value, record.headers)
        for record in records
    ]
    batch, size = kio_readers.read_batch(bytes(build_batch(records, producer_id=1)), 0)
    written = io.BytesIO()
    kio_writers.write_batch(
        written,
        kio_schema.NewRecordBatch(
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            attributes=batch.attributes,
            records=batch.records,
        ),
    )
    theirs = written.getvalue()
    assert size == len(theirs)
    assert batch.records[0].timestamp == datetime.datetime.fromtimestamp(
        records[0].timestamp / 1000, datetime.UTC
    )
    assert read_batch(theirs) == numbered(records)


# Formats 0 and 1


# Without kafka-python's optional codecs, and without lz4 in format 0 (see message_set).
OLD = [
    *((aiokafka_legacy, magic, codec) for magic in (0, 1) for codec in CODECS[: 3 + magic]),
    *((kafka_python_legacy, magic, codec) for magic in (0, 1) for codec in CODECS[:2]),
]


@pytest.mark.parametrize(("module", "magic", "codec"), OLD)
def test_old_messages_are_read(module, magic: int, codec: Codec) -> None:
    builder = module.LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for record in SOME:
        builder.append(record.offset, record.timestamp, record.key, record.value)
    buffer = builder.build()
    if codec:
        buffer[:8] = (3).to_bytes(8, "big")  # the broker assigns the last offset
    expected = [Record(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in SOME]
    found = list(read_records(buffer))
    assert [record for _, records in found for record in records] == expected
    assert all(header.magic == magic for header, _ in found)
    pos = 0
    for header, _ in found:
        assert check_crc(buffer, pos, header)
        pos += header.size
    assert pos == len(buffer)


def test_old_messages_answer_the_logs_questions() -> None:
    builder = aiokafka_legacy.LegacyRecordBatchBuilder(1, Codec.GZIP, 1 << 20)
    for record in SOME:
        builder.append(record.offset, record.timestamp, record.key, record.value)
    message = bytearray(builder.build())
    message[:8] = (103).to_bytes(8, "big")  # the broker assigns the last offset
    assert [record.offset for record in read_batch(message)] == [100, 101, 102, 103]
    assert first_at_or_after(message, 1_700_000_000_001) == (101, 1_700_000_000_050)
    assert max_timestamp_record(message) == (101, 1_700_000_000_050)


def test_old_messages_are_never_written() -> None:
    builder = aiokafka_legacy.LegacyRecordBatchBuilder(1, Codec.NONE, 1 << 20)
    builder.append(0, 5, b"k", b"v")
    with pytest.raises(KafkaError) as caught:
        recompress(builder.build(), Codec.GZIP)
    assert caught.value.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
