"""Object storage against an S3-compatible server that fails on demand."""

from __future__ import annotations

import os

import pytest

from ottla.log.remote.storage import ObjectNotFound, RemoteStorageError, open_storage

boto3 = pytest.importorskip("boto3")
pytest.importorskip("moto.server", reason="needs moto: pip install 'moto[s3]'")
from .s3_server import S3Server  # noqa: E402

MB = 1 << 20


@pytest.fixture(scope="module")
def server():
    running = S3Server()
    yield running
    running.close()


@pytest.fixture
def bucket(server):
    server.failing = lambda method, query: False
    found = boto3.resource(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    ).Bucket("lake")
    found.create()
    yield found
    server.failing = lambda method, query: False
    found.objects.all().delete()
    found.delete()


@pytest.fixture
def storage(server, bucket, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    return open_storage(f"s3://lake/kafka?region=us-east-1&endpoint={server.endpoint}")


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(os.urandom(16 * MB))
    return path


def keys(bucket):
    return sorted(each.key for each in bucket.objects.all())


def test_objects_are_stored_read_and_deleted(storage, bucket, large):
    storage.put("t/0/x.indexes", b"indexes")
    storage.put_file("t/0/x.log", str(large), 16 * MB)
    assert keys(bucket) == ["kafka/t/0/x.indexes", "kafka/t/0/x.log"]
    data = large.read_bytes()
    assert storage.get("t/0/x.log", 5 * MB, 4 * MB) == data[5 * MB : 9 * MB]
    assert storage.get("t/0/x.indexes", 0, 1 << 31) == b"indexes"
    with pytest.raises(ObjectNotFound):
        storage.get("t/0/y.log", 0, 10)
    for _ in range(2):
        storage.delete("t/0/x.log")
    assert keys(bucket) == ["kafka/t/0/x.indexes"]


def test_a_failed_upload_is_aborted(storage, bucket, server, large):
    server.failing = lambda method, query: method == "PUT" and "partNumber=2" in query
    with pytest.raises(RemoteStorageError, match=r"cannot write t/0/x\.log in s3://lake/kafka: ") as caught:
        storage.put_file("t/0/x.log", str(large), 16 * MB)
    assert "\n" not in str(caught.value)
    assert keys(bucket) == []
    assert list(bucket.multipart_uploads.all()) == []


def test_a_segment_that_shrank_is_not_stored(storage, bucket, large):
    with pytest.raises(RemoteStorageError, match="expected"):
        storage.put_file("t/0/x.log", str(large), 17 * MB)
    assert keys(bucket) == []


def test_refused_requests_are_one_sentence(storage, bucket, server):
    server.failing = lambda method, query: True
    for attempt in (
        lambda: storage.get("k", 0, 1),
        lambda: storage.put("k", b"v"),
        lambda: storage.delete("k"),
    ):
        with pytest.raises(RemoteStorageError, match=r"cannot \w+ k in s3://lake/kafka: ") as caught:
            attempt()
        assert "\n" not in str(caught.value)
