"""A broker with an S3-compatible store, which refuses requests for a while."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import Broker

from .conftest import eventually, tiered_config
from .test_tiering import COUNT, consume, filled, only_active_is_local

boto3 = pytest.importorskip("boto3")
pytest.importorskip("moto.server", reason="needs moto: pip install 'moto[s3]'")
from tests.log.remote.s3_server import S3Server  # noqa: E402

EXPECTED = [(number, b"value %d" % number) for number in range(COUNT)]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    running = S3Server()
    client = boto3.client("s3", endpoint_url=running.endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="tiered")
    yield running
    running.close()


def test_segments_live_in_a_bucket(
    server: S3Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tiered_config(tmp_path) | {
        "ottla.remote.storage.uri": f"s3://tiered/kafka?region=us-east-1&endpoint={server.endpoint}"
    }
    client = boto3.client("s3", endpoint_url=server.endpoint, region_name="us-east-1")

    def objects() -> list[str]:
        return [each["Key"] for each in client.list_objects_v2(Bucket="tiered").get("Contents", [])]

    with Broker(config=config) as broker:
        topic = filled(broker)
        eventually(lambda: only_active_is_local(broker, topic), 60)
        assert consume(broker, topic, COUNT) == EXPECTED
        assert len(objects()) % 3 == 0
        assert all(each.startswith(f"kafka/{topic}-") for each in objects())

        server.failing = lambda method, query: method == "PUT"
        with caplog.at_level(logging.INFO):
            began = time.monotonic()
            other = filled(broker)
            assert time.monotonic() - began < 10  # producers do not notice
            eventually(
                lambda: any(f"The copy of {other}-0 failed" in each.getMessage() for each in caplog.records)
            )
            [line] = {each.getMessage() for each in caplog.records if "The copy of" in each.getMessage()}
            assert "cannot write" in line
            assert "s3://tiered/kafka" in line
            assert consume(broker, other, COUNT) == EXPECTED
            server.failing = lambda method, query: False
            eventually(lambda: only_active_is_local(broker, other), 60)
        assert consume(broker, other, COUNT) == EXPECTED
        for name in (topic, other):
            broker.delete_topic(name)
        eventually(lambda: not objects(), 60)
