"""The formats that we share with MirrorMaker, byte for byte in both directions."""

from ottla.client.cluster import TopicPartition
from ottla.mirror import formats
from ottla.mirror.formats import Checkpoint, Heartbeat, OffsetSync, Position, Run


def test_a_heartbeat_is_two_names_a_version_and_a_time() -> None:
    beat = Heartbeat("A", "Bé", 1_700_000_000_000)
    assert beat.key() == b"\x00\x01A\x00\x03B\xc3\xa9"
    assert beat.value() == b"\x00\x00" + (1_700_000_000_000).to_bytes(8, "big")
    assert formats.read_heartbeat(beat.key(), beat.value()) == beat


def test_a_checkpoint_has_its_group_and_topic_in_the_key() -> None:
    checkpoint = Checkpoint("g", "A.t", 3, 42, 17, "note")
    assert checkpoint.key() == b"\x00\x01g\x00\x03A.t\x00\x00\x00\x03"
    assert checkpoint.value() == b"\x00\x00" + b"\x00" * 7 + b"\x2a" + b"\x00" * 7 + b"\x11" + b"\x00\x04note"
    assert formats.read_checkpoint(checkpoint.key(), checkpoint.value()) == checkpoint


def test_an_offset_sync_has_no_version() -> None:
    sync = OffsetSync("t", 1, 5, 6)
    assert sync.key() == b"\x00\x01t\x00\x00\x00\x01"
    assert sync.value() == b"\x00" * 7 + b"\x05" + b"\x00" * 7 + b"\x06"
    assert formats.read_offset_sync(sync.key(), sync.value()) == sync


def test_a_position_has_the_key_that_connect_looks_up() -> None:
    key = formats.position_key("A", TopicPartition("t", 7))
    assert key == b'["MirrorSourceConnector",{"cluster":"A","partition":7,"topic":"t"}]'


def test_positions_of_mirror_maker_are_understood_and_others_are_passed_over() -> None:
    key = formats.position_key("A", TopicPartition("t", 7))
    assert formats.read_position(key, b'{"offset":41}', "A") == (TopicPartition("t", 7), Position(41, ""))
    assert formats.read_position(key, formats.position_value(41, "id"), "A") == (
        TopicPartition("t", 7),
        Position(41, "id"),
    )
    assert formats.read_position(key, None, "A") == (TopicPartition("t", 7), None)
    assert formats.read_position(key, b'{"offset":41}', "B") is None
    assert formats.read_position(b'["MirrorHeartbeatConnector",{}]', b"{}", "A") is None
    assert formats.read_position(b"rubbish", b"rubbish", "A") is None


def test_a_run_comes_back_as_it_was() -> None:
    partition, run = TopicPartition("t", 2), Run(100, 90, 10)
    assert formats.read_run(formats.run_key(partition, run), formats.run_value(run)) == (partition, run)
