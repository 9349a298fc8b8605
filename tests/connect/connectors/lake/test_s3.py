"""The S3 sink against an S3-compatible server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ottla.connect import ConnectError
from ottla.connect.connectors.files.connector import S3SinkConnector
from ottla.testing.connect import SinkHarness, check_sink
from ottla.testing.ports import free_ports

from ..web.http_server import Answer, answering

moto_server = pytest.importorskip("moto.server", reason="needs moto: pip install 'moto[s3]'")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    [port] = free_ports(1)
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=port)
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


@pytest.fixture
def bucket(endpoint: str) -> Iterator[object]:
    import boto3

    s3 = boto3.resource(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    found = s3.Bucket("lake")
    found.create()
    yield found
    found.objects.all().delete()
    found.delete()


def config(endpoint: str, **settings: str) -> dict[str, str]:
    return {
        "s3.bucket.name": "lake",
        "s3.region": "us-east-1",
        "store.url": endpoint,
        "aws.access.key.id": "key",
        "aws.secret.access.key": "secret",
        "flush.size": "5",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def test_records_are_in_the_bucket_once_whatever_crashes(endpoint: str, bucket: object) -> None:
    def fresh() -> dict[str, str]:
        bucket.objects.all().delete()  # type: ignore[attr-defined]
        return config(endpoint)

    def send(sink: SinkHarness) -> None:
        for number in range(15):
            sink.send("orders", {"n": number})

    def stored() -> dict[str, list[int]]:
        found = {}
        for each in bucket.objects.all():  # type: ignore[attr-defined]
            found[each.key] = [json.loads(line)["n"] for line in each.get()["Body"].read().splitlines()]
        return found

    assert check_sink(S3SinkConnector, fresh, send, stored) == {
        "topics/orders/partition=0/orders+0+0000000000.json": [0, 1, 2, 3, 4],
        "topics/orders/partition=0/orders+0+0000000005.json": [5, 6, 7, 8, 9],
        "topics/orders/partition=0/orders+0+0000000010.json": [10, 11, 12, 13, 14],
    }


def test_a_bucket_that_is_missing_is_named(endpoint: str) -> None:
    with pytest.raises(ConnectError, match="Non-existent S3 bucket: nowhere"):
        SinkHarness(S3SinkConnector, config(endpoint, s3_bucket_name="nowhere")).start()


def test_a_server_that_does_not_answer_is_named() -> None:
    [port] = free_ports(1)
    with pytest.raises(ConnectError, match="nobody answers at its address"):
        SinkHarness(S3SinkConnector, config(f"http://127.0.0.1:{port}")).start()


def test_an_address_that_is_none_is_named() -> None:
    with pytest.raises(ConnectError, match="is not an address such as https://host:9000"):
        SinkHarness(S3SinkConnector, config("localhost:9000")).start()


def test_refused_credentials_are_named() -> None:
    """Imitates S3's response, because moto accepts any credentials."""
    with answering(lambda _: Answer(403)) as server:
        harness = SinkHarness(S3SinkConnector, config(server.url))
        with pytest.raises(ConnectError, match="The S3 bucket lake cannot be used: access is denied"):
            harness.start()
