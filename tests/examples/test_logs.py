from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from statistics import mean
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from .conftest import Example

TEN_SECONDS = timedelta(seconds=10)


def since(at: datetime) -> datetime:
    return at - timedelta(seconds=at.second % 10, microseconds=at.microsecond)


def over(events: list[Any], topic: str) -> list[Any]:
    """Return the events of windows that had ended when the last event arrived."""
    of_topic = [event for event in events if event[0] == topic]
    watermark = max(at for *_, at in of_topic) - TEN_SECONDS
    return [event for event in of_topic if since(event[3]) + TEN_SECONDS <= watermark]


def lines(events: list[Any]) -> dict[Any, int]:
    return dict(
        Counter((since(at), value["service"], value["level"]) for _, _, value, at in over(events, "logs"))
    )


def figures(events: list[Any]) -> dict[Any, Any]:
    values = defaultdict(list)
    for _, _, value, at in over(events, "metrics"):
        values[since(at), value["service"]].append(value["value"])
    return {place: (min(found), pytest.approx(mean(found)), max(found)) for place, found in values.items()}


def test_each_window_is_counted_once_when_it_is_over(example: Example) -> None:
    events = example.events(400, seconds=0.5)
    for part in (events[:250], events[250:]):
        example.send(part)
        example.run()
    counted = [
        ((datetime.fromisoformat(value["since"]), value["service"], value["level"]), value["lines"])
        for value in example.values("log-counts")
    ]
    assert len(counted) == len(dict(counted)) > 30
    assert dict(counted) == lines(events)
    measured = [
        (
            (datetime.fromisoformat(value["since"]), value["service"]),
            (value["least"], value["mean"], value["most"]),
        )
        for value in example.values("metric-figures")
    ]
    assert len(measured) == len(dict(measured))
    assert dict(measured) == figures(events)


def test_neither_lines_nor_figures_are_kept_for_long(example: Example) -> None:
    admin = AdminClient({"bootstrap.servers": example.broker.bootstrap_servers})
    kept = {}
    for topic in example.generate.TOPICS:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        config = admin.describe_configs([resource])[resource].result(timeout=30)
        kept[topic] = timedelta(milliseconds=int(config["retention.ms"].value))
    assert kept == {
        "logs": timedelta(hours=1),
        "metrics": timedelta(hours=1),
        "log-counts": timedelta(days=1),
        "metric-figures": timedelta(days=1),
    }
