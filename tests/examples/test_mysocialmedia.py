from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from .conftest import Example


def views(events: list[Any]) -> dict[str, Any]:
    expected: dict[str, Any] = {}
    for topic, post, value, _ in events:
        if topic == "posts":
            text = {"user": value["user"], "text": value["text"]}
            expected[post] = {"post": post, **text, "likes": 0, "comments": 0}
        elif topic == "likes":
            expected[post]["likes"] += 1 if value["liked"] else -1
        else:
            expected[post]["comments"] += 1
    return expected


def scores(events: list[Any]) -> dict[tuple[datetime, str], int]:
    expected: Counter[tuple[datetime, str]] = Counter()
    for topic, post, value, at in events:
        since = at - timedelta(minutes=at.minute % 5, seconds=at.second, microseconds=at.microsecond)
        points = {"posts": 0, "comments": 2, "likes": 1 if value.get("liked") else -1}
        expected[since, post] += points[topic]
    return dict(expected)


def test_pages_show_what_the_commands_amount_to(example: Example) -> None:
    events = example.events(300, seconds=3)
    example.send(events[:150])
    example.run()
    assert example.latest("post-views") == views(events[:150])
    example.send(events[150:])
    example.run()
    assert example.latest("post-views") == views(events)
    found = {
        (datetime.fromisoformat(value["since"]), value["post"]): value["score"]
        for value in example.latest("trending-posts").values()
    }
    assert found == scores(events)
