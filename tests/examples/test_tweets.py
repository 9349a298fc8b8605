from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from .conftest import Example


def popular(events: list[Any]) -> list[int]:
    tweets = [value for _, _, value, _ in events]
    return sorted(tweet["id"] for tweet in tweets if tweet["likes"] > 10 or tweet["replies"] > 10)


def trending(events: list[Any]) -> dict[tuple[datetime, str], int]:
    return dict(
        Counter(
            (at.replace(second=0, microsecond=0), hashtag)
            for _, _, tweet, at in events
            for hashtag in tweet["hashtags"]
        )
    )


def counted(example: Example) -> dict[tuple[datetime, str], int]:
    return {
        (datetime.fromisoformat(value["minute"]), value["hashtag"]): value["tweets"]
        for value in example.latest("trending").values()
    }


def test_popular_tweets_are_passed_on_and_hashtags_are_counted_per_minute(example: Example) -> None:
    events = example.events(400, seconds=0.7)
    first, second = events[:250], events[250:]
    example.send(first)
    example.run()
    assert counted(example) == trending(first)

    # A second run continues: it completes the half-counted minute.
    example.send(second)
    example.run()
    assert counted(example) == trending(events)
    assert sorted(value["id"] for value in example.values("popular-tweets")) == popular(events)
    whole = {value["id"]: value for _, _, value, _ in events}
    for value in example.values("popular-tweets"):
        original = whole[value["id"]]
        assert {**value, "created_at": datetime.fromisoformat(value["created_at"])} == {
            **original,
            "created_at": datetime.fromisoformat(original["created_at"]),
        }
