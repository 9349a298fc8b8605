"""kafka-dump-log on a broker's files. A test among the peers compares the output with Kafka's tool."""

import pytest

from ottla.cli.kafka.dump_log import main
from ottla.log.producer_state import ProducerEntry, encode_snapshot
from ottla.testing import Broker

run = main.__wrapped__  # without exiting the process
SEGMENT = "00000000000000000000.log"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    with Broker(data=data) as broker:
        broker.create_topic("t")
        broker.produce("t", b"hello", key=b"k", headers=[("h1", b"1"), ("h2", None)], timestamp=1000)
        broker.produce("t", None, timestamp=2000)
    return data / "t-0"


def test_batches_and_records(directory, capsys):
    run(["--files", str(directory / SEGMENT), "--print-data-log"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"Dumping {directory / SEGMENT}", "Log starting offset: 0"]
    assert lines[2].startswith(
        "baseOffset: 0 lastOffset: 0 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 "
        "partitionLeaderEpoch: 0 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
        "position: 0 CreateTime: 1000 size: "
    )
    assert lines[2].endswith(" isvalid: true")
    assert lines[3] == (
        "| offset: 0 CreateTime: 1000 keySize: 1 valueSize: 5 sequence: -1 headerKeys: [h1,h2] key: k payload: hello"
    )
    assert lines[5] == "| offset: 1 CreateTime: 2000 keySize: -1 valueSize: -1 sequence: -1 headerKeys: []"


def test_batches_alone(directory, capsys):
    run(["--files", str(directory / SEGMENT)])
    assert "|" not in capsys.readouterr().out


def test_a_flipped_bit_and_a_torn_end_are_said(directory, tmp_path, capsys):
    data = bytearray((directory / SEGMENT).read_bytes())
    data[70] ^= 1
    (tmp_path / SEGMENT).write_bytes(data[:-3])
    run(["--files", str(tmp_path / SEGMENT)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].endswith("isvalid: false")
    assert lines[3].startswith("Found ")
    assert lines[3].endswith(f" invalid bytes at the end of {SEGMENT}")


def test_indexes(tmp_path, capsys):
    config = {"log.index.interval.bytes": "1", "log.segment.bytes": "1048576"}
    with Broker(data=tmp_path, config=config) as broker:
        broker.create_topic("t")
        for number in range(3):
            broker.produce("t", b"x", timestamp=1000 + number)
    files = [str(path) for path in sorted((tmp_path / "t-0").glob("*index"))]
    assert files
    run(["--files", ",".join(files)])
    said = capsys.readouterr()
    assert said.err == ""
    assert "offset: 1 position: " in said.out


def test_a_snapshot_of_producers(tmp_path, capsys):
    entry = ProducerEntry(3)
    entry.batches.append((5, 9, 100, 104, 1234))
    entry.last_timestamp = 1234
    entry.coordinator_epoch = 2
    entry.txn_first_offset = 100
    path = tmp_path / "00000000000000000105.snapshot"
    path.write_bytes(encode_snapshot({7: entry}))
    run(["--files", str(path)])
    assert capsys.readouterr().out.splitlines()[1] == (
        "producerId: 7 producerEpoch: 3 coordinatorEpoch: 2 currentTxnFirstOffset: OptionalLong[100] "
        "lastTimestamp: 1234 firstSequence: 5 lastSequence: 9 lastOffset: 104 offsetDelta: 4 timestamp: 1234"
    )


def test_committed_offsets_can_be_read(tools, kafka_broker, topic, group, capsys):
    tools(
        "consumer-groups", "--group", group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute"
    )
    files = ",".join(str(path) for path in kafka_broker.data.glob("__consumer_offsets-*/*.log"))
    run(["--files", files, "--offsets-decoder"])
    key = f'key: {{"type":"1","data":{{"group":"{group}","topic":"{topic}","partition":0}}}}'
    assert f'{key} payload: {{"version":"4","data":{{"offset":0,' in capsys.readouterr().out


def test_what_is_no_log(alone, tmp_path):
    (tmp_path / "other.txt").write_text("")
    ignored = alone("dump-log", "--files", tmp_path / "other.txt")
    assert ignored.err == f"Ignoring unknown file {tmp_path / 'other.txt'}\n"
    failed = alone("dump-log", "--files", "00000000000000000000.log", code=1, cwd=tmp_path)
    assert failed.err == "00000000000000000000.log cannot be read: No such file or directory.\n"
    assert alone("dump-log", "--print-data-log", code=1).err == 'Missing required argument "[files]"\n'
