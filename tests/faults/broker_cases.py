"""Damage to the data of a whole broker, with real sockets: its metadata, its internal topics, and its logs.

Show one case with `python -m tests.faults.broker_cases SEED`.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from pathlib import Path

from ottla.broker.lifecycle.server import StartupError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import Record, build_batch, read_records
from ottla.testing import Broker
from tests.broker.transactions.wire_producer import NONE, WireProducer, begin, end_offset, fetch
from tests.faults.damage import damage
from tests.faults.log_cases import NOW, DamageNotNoticed, Expected, logged
from tests.wire_client import WireClient

CONFIG = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "log.retention.ms": "-1",
}
TOPICS = ("plain", "other", "transactions")
STOPS = ("clean stop", "kill")


class BrokerData:
    """A broker's data after a clean stop and after a kill, and the acknowledged records."""

    def __init__(self, scratch: Path) -> None:
        self.expected = {topic: Expected() for topic in TOPICS}
        self.directories = {stop: scratch / stop.replace(" ", "-") for stop in STOPS}
        data = scratch / "data"
        with Broker(data=data, config=CONFIG) as broker, WireClient(broker.bootstrap_servers) as client:
            for topic in TOPICS:
                # Record timestamps trigger segment rolls, which gives several small segments.
                span = "10" if topic == "transactions" else "1000"
                broker.create_topic(topic, config={"segment.ms": span, "index.interval.bytes": "150"})
            for number in range(40):
                for topic in ("plain", "other"):
                    value = b"%s %02d" % (topic[:5].encode(), number)
                    code, offset = produce(client, topic, value, NOW + 100 * number)
                    assert code is NONE
                    self.expected[topic].records[offset] = value
            self._write_transactions(client)
            # Nothing writes at this point, so the files match those of a process killed now.
            shutil.copytree(data, self.directories["kill"], ignore=shutil.ignore_patterns(".lock"))
        shutil.copytree(data, self.directories["clean stop"])

    def _write_transactions(self, client: WireClient) -> None:
        expected = self.expected["transactions"]
        for number in range(12):
            producer = WireProducer(client, f"x-{number % 3}")
            assert producer.init() is NONE
            start = end_offset(client, "transactions", committed=False)
            begin(producer, "transactions", b"t %d" % number, b"y" * 100)
            commits = number % 3 != 1
            assert producer.end(commit=commits) is NONE
            wrote = {start: b"t %d" % number, start + 1: b"y" * 100}
            if commits:
                expected.records |= wrote
            else:
                expected.hidden |= wrote.keys()


def produce(client: WireClient, topic: str, value: bytes, timestamp: int = NOW) -> tuple[ErrorCode, int]:
    data = PartitionProduceData(index=0, records=bytes(build_batch([Record(0, timestamp, b"k", value)])))
    request = ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    answer = client.call(request, 9).responses[0].partition_responses[0]
    return ErrorCode(answer.error_code), answer.base_offset


def consume(client: WireClient, topic: str, offsets: list[int]) -> tuple[dict[int, bytes], bool]:
    """Read as a read_committed consumer; return the records, and whether the broker refused a part."""
    found: dict[int, bytes] = {}
    refused, offset = False, 0
    end = end_offset(client, topic, committed=True)
    last = max(offsets, default=0)
    while offset <= last:
        answer = fetch(client, topic, offset)
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE or (code is NONE and not answer.records):
            if not refused:
                raise DamageNotNoticed(f"{topic} answers {code.name} at offset {offset}, its end is {end}")
            break
        if code is not NONE:
            if code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise DamageNotNoticed(f"{topic} answers {code.name} at offset {offset}")
            refused = True
            offset = next((each for each in sorted(offsets) if each > offset), last + 1)
            continue
        aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
        ended: set[tuple[int, int]] = set()
        for header, records in read_records(bytes(answer.records)):
            hiding = [
                each for each in aborted if each[0] == header.producer_id and each[1] <= header.base_offset
                and each not in ended
            ]  # fmt: skip
            if header.is_control:
                ended |= set(hiding)
            for record in records:
                if record.offset >= offset and not header.is_control and not hiding:
                    found[record.offset] = bytes(record.value or b"")
            offset = max(offset, header.next_offset)
    return found, refused


def check(client: WireClient, expected: dict[str, Expected], lines: list[str]) -> bool:
    refusals = False
    for topic, wanted in expected.items():
        found, refused = consume(client, topic, sorted({*wanted.records, *wanted.hidden}))
        refusals |= refused
        if refused and not any(f"{topic}-0" in line for line in lines):
            raise DamageNotNoticed(f"{topic} is not served, and no line of the log says why")
        missing = wanted.records.keys() - found.keys()
        if missing and not refused:
            raise DamageNotNoticed(f"{topic} lost {len(missing)} records, the first at {min(missing)}")
        wrong = [o for o in found.keys() & wanted.records.keys() if found[o] != wanted.records[o]]
        if wrong:
            raise DamageNotNoticed(f"{topic} has other records at {sorted(wrong)[:5]}")
        if visible := found.keys() & wanted.hidden:
            raise DamageNotNoticed(f"{topic} shows aborted records at {sorted(visible)[:5]}")
    return refusals


def run_case(data: BrokerData, seed: int, scratch: Path, verbose: bool = False) -> None:
    rng = random.Random(seed)
    stop = rng.choice(STOPS)
    copy = scratch / f"broker-case-{seed}"
    shutil.copytree(data.directories[stop], copy)
    expected = {
        topic: Expected(dict(each.records), set(each.hidden)) for topic, each in data.expected.items()
    }
    done = damage(copy, rng)
    try:
        with logged() as lines:
            for _ in range(2):
                try:
                    with (
                        Broker(data=copy, config=CONFIG) as broker,
                        WireClient(broker.bootstrap_servers) as client,
                    ):
                        refusals = check(client, expected, lines)
                        if refusals and not any(path.name in line for path in done.files for line in lines):
                            raise DamageNotNoticed(f"no line of the log names the file: {lines}")
                        for topic, wanted in expected.items():
                            code, offset = produce(client, topic, b"more")
                            if code is NONE and offset in wanted.records:
                                raise DamageNotNoticed(f"{topic} gave offset {offset} to a second record")
                            if code is NONE:
                                wanted.records[offset] = b"more"
                            elif code is not ErrorCode.KAFKA_STORAGE_ERROR:
                                raise DamageNotNoticed(f"{topic} answers {code.name} to a producer")
                except StartupError as error:
                    if not any(path.name in str(error) for path in done.files):
                        raise DamageNotNoticed(f"the refusal does not name the file: {error}") from error
                    break
                finally:
                    if verbose:
                        print("\n".join(lines), file=sys.stderr)
    except Exception as error:
        raise DamageNotNoticed(
            f"seed {seed}, {stop}, {done}: {type(error).__name__}: {error}\n"
            f"see it: python -m tests.faults.broker_cases {seed}"
        ) from error
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        data = BrokerData(Path(scratch))
        for seed in map(int, sys.argv[1:]):
            run_case(data, seed, Path(scratch), verbose=True)


if __name__ == "__main__":
    main()
