from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from .conftest import Example

FIVE = timedelta(minutes=5)


def counts(events: list[Any]) -> dict[str, Any]:
    expected: dict[str, Any] = {}
    for topic, post, value, _ in events:
        if topic == "posts" and value["deleted"]:
            del expected[post]
        elif topic == "posts":
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
        if value.get("deleted"):
            for each in (since, since - FIVE):
                expected.pop((each, post), None)
    return dict(expected)


def test_pages_show_what_the_commands_amount_to(example: Example) -> None:
    events = example.events(300, seconds=3)
    example.send(events[:150])
    example.run()
    assert example.latest("posts_with_counts") == counts(events[:150])
    example.send(events[150:])
    example.run()
    shown = example.latest("posts_with_counts")
    assert shown == counts(events)
    found = {
        (datetime.fromisoformat(value["since"]), value["post"]): value["score"]
        for value in example.latest("trending_posts").values()
    }
    assert found == scores(events)

    # Posts with likes were deleted: tombstones follow their records.
    deleted = {post for topic, post, value, _ in events if value.get("deleted")}
    liked = {post for topic, post, *_ in events if topic == "likes"}
    assert deleted & liked
    assert not deleted & set(shown)
    tombstones = {key for key, value in example.records("posts_with_counts") if value is None}
    assert deleted == tombstones
    assert not any(
        post in deleted and since >= max(since for since, _ in found) - FIVE for since, post in found
    )


def test_a_post_that_was_deleted_does_not_come_back(example: Example) -> None:
    """A user may like the post at the same moment."""
    at = example.events(1, seconds=1)[0][-1]
    stamp = {"post": "post-1", "at": at.isoformat()}
    post = {**stamp, "user": "ada", "text": "Oops", "deleted": False}
    example.send([("posts", "post-1", post, at)])
    example.run()
    assert list(example.latest("posts_with_counts")) == ["post-1"]
    example.send(
        [
            ("posts", "post-1", {**stamp, "user": "ada", "deleted": True}, at),
            ("likes", "post-1", {**stamp, "user": "ben", "liked": True}, at),
        ]
    )
    example.run()
    assert example.latest("posts_with_counts") == {}
    assert example.latest("trending_posts") == {}
