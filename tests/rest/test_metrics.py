"""The proxy's own metrics."""

from __future__ import annotations

import httpx

from tests.broker.metrics.scraping import Metrics


def test_routes_are_counted_whatever_topic_was_asked_for(http: httpx.Client, topic: str) -> None:
    http.get(f"/topics/{topic}").raise_for_status()
    assert http.get("/topics/nothing-of-the-kind").status_code == 404
    found = Metrics(http.get("/metrics").text)
    of = {"server": "rest", "method": "GET", "route": "/topics/{topic}"}
    assert found.value("ottla_http_requests_total", **of, status="200") == 1
    assert found.value("ottla_http_requests_total", **of, status="404") == 1
