from __future__ import annotations

import os

import pytest

from ottla.log.remote.objects import (
    RemoteSegmentError,
    SegmentManifest,
    decode_leader_epochs,
    encode_leader_epochs,
    object_key,
    pack_indexes,
    parse_manifest,
)
from ottla.log.remote.storage import DirectoryStorage, ObjectNotFound, RemoteStorageError, open_storage

from .segments import remote_segment


def files_below(path):
    return sorted(each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file())


def test_objects_are_named_as_by_aivens_plugin():
    segment = remote_segment(23, 99)
    key = object_key(segment, "log")
    assert key.startswith("t-AAAAAAAAAAAAAAAAAAAABw/0/00000000000000000023-")
    assert key.endswith(".log")
    assert len(key.split("/")[-1]) == 20 + 1 + 22 + len(".log")


def test_a_manifest_names_the_place_of_each_index():
    packed, places = pack_indexes(
        {"timestamp": b"tt", "offset": b"ooo", "leaderEpoch": b"", "producerSnapshot": b"p"}
    )
    assert packed == b"ooottp"
    manifest = SegmentManifest(5, places)
    parsed = parse_manifest(manifest.encode(remote_segment(0, 9)), "key")
    assert parsed.size == 5
    assert {name: packed[at : at + size] for name, (at, size) in parsed.indexes.items()} == {
        "offset": b"ooo",
        "timestamp": b"tt",
        "producerSnapshot": b"p",
        "leaderEpoch": b"",
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"version": "2", "compression": false, "chunkIndex": {"originalFileSize": 1}, "segmentIndexes": {}}',
        b'{"version": "1", "compression": true, "chunkIndex": {"originalFileSize": 1}, "segmentIndexes": {}}',
    ],
)
def test_an_unusable_manifest_is_named(data):
    with pytest.raises(RemoteSegmentError, match="the/key"):
        parse_manifest(data, "the/key")


def test_leader_epochs_have_the_format_of_kafkas_checkpoint():
    assert encode_leader_epochs([(0, 0), (3, 17)]) == b"0\n2\n0 0\n3 17\n"
    assert decode_leader_epochs(b"0\n2\n0 0\n3 17\n") == [(0, 0), (3, 17)]
    with pytest.raises(ValueError, match="checkpoint"):
        decode_leader_epochs(b"0\n3\n0 0\n")


def test_a_directory_keeps_objects(tmp_path):
    storage = open_storage(f"file://{tmp_path}/remote")
    source = tmp_path / "source"
    source.write_bytes(b"0123456789")
    storage.put_file("a/0/x.log", str(source), 8)
    storage.put("a/0/x.indexes", b"abc")
    assert storage.get("a/0/x.log", 0, 100) == b"01234567"
    assert storage.get("a/0/x.log", 5, 2) == b"56"
    with pytest.raises(ObjectNotFound):
        storage.get("a/0/y.log", 0, 1)
    storage.delete("a/0/x.log")
    storage.delete("a/0/x.log")
    assert files_below(tmp_path / "remote") == ["a/0/x.indexes"]
    storage.delete("a/0/x.indexes")
    assert not (tmp_path / "remote" / "a").exists()


def test_a_failed_upload_leaves_nothing(tmp_path):
    storage = DirectoryStorage(str(tmp_path / "remote"))
    source = tmp_path / "source"
    source.write_bytes(b"0123456789")
    with pytest.raises(RemoteStorageError, match="ended early"):
        storage.put_file("a/0/x.log", str(source), 11)
    assert not files_below(tmp_path / "remote")
    with pytest.raises(RemoteStorageError, match="nowhere"):
        storage.put_file("a/0/x.log", str(tmp_path / "nowhere"), 1)


@pytest.mark.skipif(os.geteuid() == 0 and not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_errors_name_the_object(tmp_path):
    (tmp_path / "remote").write_text("a file in the way")
    storage = DirectoryStorage(str(tmp_path / "remote"))
    with pytest.raises(RemoteStorageError, match=r"cannot write .*remote/k"):
        storage.put("k", b"v")


@pytest.mark.parametrize(
    "uri", ["file://host/x", "x/y", "s3://", "nope://bucket/x", "s3://key:secret@bucket/x"]
)
def test_a_uri_that_cannot_be_used_is_refused(uri):
    with pytest.raises(RemoteStorageError, match=r"cannot be used|does not name a directory") as caught:
        open_storage(uri)
    assert "secret" not in str(caught.value)


def test_the_name_of_a_store_has_no_options():
    storage = open_storage("s3://bucket/prefix?region=x&endpoint=http://127.0.0.1:1")
    assert str(storage) == "s3://bucket/prefix"


@pytest.mark.parametrize("option", ["aws_secret_access_key", "access_key_id", "session_token", "account_key"])
def test_credentials_do_not_belong_in_a_uri(option):
    with pytest.raises(
        RemoteStorageError, match=f"with {option}: give credentials in the broker's environment"
    ) as caught:
        open_storage(f"s3://bucket/prefix?{option}=hidden")
    assert "hidden" not in str(caught.value)
