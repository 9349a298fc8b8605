"""`/livez` and `/readyz` of a broker: what they say while it serves, and without a login."""

from __future__ import annotations

import shutil

import httpx

from ottla.testing import Broker


def probe(broker: Broker, path: str) -> httpx.Response:
    assert broker.metrics_url is not None
    return httpx.get(broker.metrics_url.replace("/metrics", path))


def test_a_broker_that_serves_is_alive_and_ready() -> None:
    with Broker(config={"metrics.port": "0"}) as broker:
        broker.create_topic("orders", partitions=3)
        assert probe(broker, "/livez").json() == {"status": "alive", "broker": 0}
        ready = probe(broker, "/readyz")
        assert ready.status_code == 200
        assert ready.headers["Content-Type"] == "application/json"
        assert ready.json() == {"status": "ready", "broker": 0, "reasons": []}
        assert httpx.head(str(ready.url)).status_code == 200
        assert httpx.post(str(ready.url)).status_code == 405


def test_an_offline_partition_makes_the_broker_not_ready(tmp_path) -> None:
    config = {"metrics.port": "0"}
    with Broker(config=config, data=tmp_path) as broker:
        broker.create_topic("orders", partitions=3)
        broker.produce("orders", b"1", partition=1)
    shutil.rmtree(tmp_path / "orders-1")
    with Broker(config=config, data=tmp_path) as broker:
        answer = probe(broker, "/readyz")
        assert answer.status_code == 503
        assert answer.json() == {
            "status": "not ready",
            "broker": 0,
            "reasons": ["1 partition is offline here: orders-1."],
        }
        assert probe(broker, "/livez").status_code == 200


def test_probes_need_no_login_and_name_no_partition_on_a_secured_broker(tmp_path) -> None:
    config = {"metrics.port": "0", "metrics.authentication.method": "KAFKA"}
    with Broker(config={"metrics.port": "0"}, data=tmp_path) as broker:
        broker.create_topic("secret", partitions=2)
        for partition in range(2):
            broker.produce("secret", b"1", partition=partition)
    for partition in range(2):
        shutil.rmtree(tmp_path / f"secret-{partition}")
    with Broker(security="SASL_PLAINTEXT", config=config, data=tmp_path) as broker:
        assert probe(broker, "/metrics").status_code == 401
        assert probe(broker, "/livez").status_code == 200
        assert probe(broker, "/readyz").json()["reasons"] == ["2 partitions are offline here."]
