"""On a secured broker, only users with Describe on the cluster may read the metrics."""

from __future__ import annotations

import httpx

from ottla.testing import Broker, acl


def test_metrics_need_a_login_and_the_right_to_describe_the_cluster() -> None:
    users = {"scraper": "scraper-password", "stranger": "stranger-password"}
    config = {"metrics.port": "0", "metrics.authentication.method": "KAFKA"}
    rights = [acl("scraper", "describe")]
    with Broker(security="SASL_PLAINTEXT", users=users, acls=rights, config=config) as broker:
        url = broker.metrics_url
        assert url is not None
        assert httpx.get(url).status_code == 401
        assert httpx.get(url).headers["WWW-Authenticate"] == 'Basic realm="metrics"'
        assert httpx.get(url, headers={"Authorization": "Basic %%%"}).status_code == 401
        assert httpx.get(url, auth=("scraper", "wrong")).status_code == 401
        assert httpx.get(url, auth=("nobody", "scraper-password")).status_code == 401
        assert httpx.get(url, auth=("stranger", "stranger-password")).status_code == 403
        for _ in range(2):  # the broker caches a correct password
            shown = httpx.get(url, auth=("scraper", "scraper-password"))
            assert shown.status_code == 200
            assert "kafka_" in shown.text
        assert httpx.get(url.replace("/metrics", "/healthz")).text == "ok"
        assert (
            httpx.get(url, auth=("scraper", "scraper-password"), headers={"Origin": "null"}).status_code
            == 403
        )
