"""Scrape a broker's metrics and parse them with Prometheus' own parser."""

from __future__ import annotations

import http.client
from typing import NamedTuple
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from ottla.testing import Broker


class Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


class Metrics:
    """Metrics of a broker at one moment."""

    def __init__(self, text: str) -> None:
        self.types: dict[str, str] = {}
        self.samples: list[Sample] = []
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self.types[sample.name] = family.type
                self.samples.append(Sample(sample.name, dict(sample.labels), sample.value))

    def all(self, name: str, **labels: str) -> list[Sample]:
        return [
            each
            for each in self.samples
            if each.name == name and all(each.labels.get(key) == value for key, value in labels.items())
        ]

    def value(self, name: str, **labels: str) -> float:
        """Return the value of the only sample with exactly these labels."""
        [found] = [each for each in self.all(name, **labels) if each.labels == labels]
        return found.value

    def total(self, name: str, **labels: str) -> float:
        return sum(each.value for each in self.all(name, **labels))


def get(url: str, method: str = "GET", path: str | None = None) -> tuple[int, dict[str, str], str]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request(method, path or parts.path)
        response = connection.getresponse()
        return response.status, dict(response.headers), response.read().decode()
    finally:
        connection.close()


def scrape(broker: Broker) -> Metrics:
    status, headers, text = get(broker.metrics_url)
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return Metrics(text)
