"""The registry's own metrics."""

from __future__ import annotations

import httpx

from ottla.testing import Broker
from tests.broker.metrics.scraping import Metrics


def test_routes_are_counted_whatever_subject_was_asked_for() -> None:
    with Broker(registry=True) as broker, httpx.Client(base_url=broker.schema_registry_url) as http:
        http.get("/subjects").raise_for_status()
        assert http.get("/subjects/a/versions").status_code == 404
        found = Metrics(http.get("/metrics").text)
    count = "ottla_http_requests_total"
    assert found.value(count, server="registry", method="GET", route="/subjects", status="200") == 1
    assert (
        found.value(
            count, server="registry", method="GET", route="/subjects/{subject}/versions", status="404"
        )
        == 1
    )
