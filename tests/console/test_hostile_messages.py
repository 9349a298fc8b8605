"""Hostile messages: the console stays fast, shows the other messages, and names the omitted parts."""

from __future__ import annotations

import json
import time
from itertools import count

import pytest
from confluent_kafka import Producer

from ottla.client.errors import ClientError
from ottla.client.schema_registry import RegistrySettings, Schema, SchemaRegistry
from ottla.console.messages import decoding, reading
from ottla.console.messages.decoding import Decoder, Masker, ShownMessage, decode_page
from ottla.console.messages.reading import Batch, Message, PageBounds
from ottla.console.messages.scanning import first_is_text
from ottla.console.pages.schemas import diff
from ottla.console.settings import Mask
from ottla.protocol.batch_header import read_header
from ottla.protocol.compression import Codec
from ottla.protocol.errors import KafkaError
from ottla.protocol.record_format import Record
from ottla.protocol.records import build_batch
from ottla.testing import Broker
from tests.console.browsing import Visitor, text_of, write

DEEP = b'{"a":' * 900 + b"1" + b"}" * 900


_numbers = count()


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"hostile-{next(_numbers)}"
    broker.create_topic(name)
    return name


def message(value: bytes | None, key: bytes | None = None, offset: int = 0) -> Message:
    return Message("t", 0, offset, 0, "CreateTime", key, value)


# -- schemas --


def test_ten_bytes_of_avro_do_not_keep_a_page_busy(broker: Broker, visitor: Visitor, topic: str) -> None:
    settings = RegistrySettings.from_properties({"schema.registry.url": broker.schema_registry_url})
    with SchemaRegistry(settings) as registry:
        schema = Schema('{"type": "array", "items": "null"}', "AVRO")
        number = registry.register(f"{topic}-value", schema)
    bomb = b"\0" + number.to_bytes(4, "big") + b"\x80\x9b\xee\x02\0"
    write(broker, topic, [bomb] * 50 + [b"harmless"])
    began = time.monotonic()
    page = visitor.get(f"topics/{topic}/messages")
    assert page.status_code == 200
    assert time.monotonic() - began < 5
    assert "harmless" in page.text
    assert "more items than its size allows for" in page.text


# -- JSON --


@pytest.mark.parametrize(
    "path",
    [
        "messages",
        "messages.json",
        "messages.json?q=harmless",
        "messages/search?q=harmless",
        "messages/search?q=value.a&mode=expression",
        "messages/search?q=value->a%20=%201&mode=sql",
        "messages/export?format=json",
        "messages/export?format=csv",
        "messages/export?format=parquet",
    ],
)
def test_json_that_nests_deep_breaks_no_page(broker: Broker, visitor: Visitor, topic: str, path: str) -> None:
    write(broker, topic, [DEEP, b"[" * 100_000 + b"]" * 100_000, b'"harmless"'])
    answer = visitor.get(f"topics/{topic}/{path}")
    assert answer.status_code == 200
    assert "took too much memory" not in answer.text
    if "q=value" not in path and "parquet" not in path:
        assert "harmless" in answer.text


def test_deep_json_is_shown_as_text_with_a_note() -> None:
    shown = Decoder(None).part(DEEP)
    assert (shown.format, shown.value, shown.is_structured) == ("text", DEEP.decode(), False)
    assert "nests more than 200 levels" in shown.note
    fine = Decoder(None).part(b"[" * 200 + b"]" * 200)
    assert fine.is_structured
    assert json.loads(fine.text) == fine.value


@pytest.mark.parametrize("deep", [DEEP, b"\x91" * 900 + b"\xc0"])
def test_a_mask_hides_what_was_too_deep_to_look_into(deep: bytes) -> None:
    masker = Masker([Mask(("*",), ("a",))])
    shown = masker(Decoder(None).message(message(deep, key=DEEP)))
    assert (shown.key.value, shown.value.value) == ("•••", "•••")


def test_large_json_is_written_in_one_line() -> None:
    shown = Decoder(None).part(json.dumps(list(range(50_000))).encode())
    assert shown.text.count("\n") == 0
    assert Decoder(None).part(b"[1, 2]").text.count("\n") == 3


# -- decompression --


def test_batches_that_decompress_to_much_are_shown_in_part(
    broker: Broker, visitor: Visitor, topic: str
) -> None:
    """A page would decompress to a gigabyte; each batch is a few kilobytes on the wire."""
    options = {"bootstrap.servers": broker.bootstrap_servers, "compression.type": "zstd", "linger.ms": 0}
    producer = Producer({**options, "message.max.bytes": 1 << 29, "queue.buffering.max.kbytes": 2 << 20})
    for _ in range(20):
        producer.produce(topic, b"x" * (40 << 20))
        assert producer.flush(30) == 0
    write(broker, topic, [b"harmless"])
    page = visitor.get(f"topics/{topic}/messages")
    assert page.status_code == 200
    assert "harmless" in page.text
    assert "Only its beginning is shown: the message has 41,943,040 bytes." in page.text
    assert len(page.text) < 1 << 20


def test_a_page_has_room_for_so_many_bytes() -> None:
    bounds = PageBounds()
    large = [bounds.kept(message(bytes(4 << 20))) for _ in range(30)]
    assert [each.whole_size > 0 for each in large] == [False] * 16 + [True] * 14
    assert bounds.kept(message(b"small")).value == b"small"


def batch(*values: bytes, damaged: bool = False) -> Batch:
    records = [Record(number, 0, None, each) for number, each in enumerate(values)]
    data = bytearray(build_batch(records, codec=Codec.GZIP))
    if damaged:
        data[70:] = bytes(len(data) - 70)
    view = memoryview(data)
    return Batch(view, 0, read_header(view))


def test_a_batch_that_cannot_be_read_is_one_line_of_the_page() -> None:
    found = list(reading._readable(("t", 0), batch(b"a", b"b", damaged=True), 0, PageBounds()))
    shown = Decoder(None).message(found[0])
    assert (len(found), shown.offset, shown.value.format) == (1, 0, "unread")
    assert "cannot be read: " in shown.value.note
    with pytest.raises(ClientError, match="t-0: The batch from offset 0 on cannot be read"):
        list(reading._readable(("t", 0), batch(b"a", damaged=True), 0, None))


# -- time --


def test_reading_a_page_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PAGE_SECONDS", 0.0)
    with pytest.raises(ClientError, match="ask for fewer"):
        list(reading._readable(("t", 0), batch(b"a"), 0, PageBounds()))


@pytest.mark.parametrize("hides", [True, False])
def test_decoding_a_page_ends_in_time(monkeypatch: pytest.MonkeyPatch, hides: bool) -> None:
    monkeypatch.setattr(decoding, "_PAGE_SECONDS", 0.05)

    def slow(each: Message) -> ShownMessage:
        time.sleep(0.06)
        return Decoder(None).message(each)

    messages = [message(b"content", key=b"key", offset=number) for number in range(100)]
    shown = decode_page(messages, slow, hides)
    assert [each.offset for each in shown] == list(range(100))
    assert shown[0].value.value == "content"
    assert "decoding this page took too long" in shown[-1].value.note
    assert ("•••" in str(shown[-1].key.value)) is hides


# -- queries --


@pytest.mark.parametrize(
    ("mode", "query"),
    [
        ("sql", "(" * 150 + "1" + ")" * 150 + " = 1"),
        ("sql", "a[" * 130 + "1" + "]" * 130 + " = 1"),
        ("sql", "ARRAY_LENGTH(" * 60 + "a" + ")" * 60 + " = 1"),
        ("expression", "(" * 5000 + "1" + ")" * 5000),
        ("expression", "-" * 5000 + "1"),
        ("expression", "value[" * 190 + "1" + "]" * 190),
    ],
)
def test_a_query_that_nests_deep_is_refused_in_a_sentence(
    visitor: Visitor, topic: str, mode: str, query: str
) -> None:
    for path in ("messages", "messages.json", "messages/search", "messages/export"):
        answer = visitor.get(f"topics/{topic}/{path}", q=query, mode=mode)
        assert answer.status_code == 400, path
        assert any(
            word in text_of(answer)
            for word in ("parentheses", "too long", "no Python expression", "too deep")
        )


def test_numbers_of_a_record_that_never_end_are_refused() -> None:
    for body in (b"\xff" * 1_000_000, b"", b"\2\0\0\0\xfe\xff\x03"):
        with pytest.raises(KafkaError):
            first_is_text(body)


# -- schemas --


def test_large_schemas_are_compared_in_time() -> None:
    """A word diff of every line took minutes on the event loop."""
    before, after = (
        Schema(json.dumps([f"{word} {number} {number % 7}" for number in range(20_000)]), "AVRO")
        for word in ("old", "new")
    )
    began = time.monotonic()
    assert len(diff(before, after)) == 40_004
    assert time.monotonic() - began < 2
    assert diff(Schema('["a", "b"]', "AVRO"), Schema('["a", "c"]', "AVRO")) == [
        ("same", "["),
        ("same", '  "a",'),
        ("removed", '  "b"'),
        ("added", '  "c"'),
        ("same", "]"),
    ]


def test_json_that_is_typed_and_nests_deep_is_refused_in_a_sentence(visitor: Visitor, topic: str) -> None:
    for kind in ("json", "schema"):
        page = visitor.submit(f"topics/{topic}/produce", "/produce", value="[" * 5000, value_kind=kind)
        assert page.status_code == 400
