"""Tweets of people who have a favourite subject, about hashtags that come and go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from random import Random
from typing import Any

TOPICS = {
    "tweets": {"partitions": "3"},
    "popular-tweets": {},
    "trending": {"cleanup.policy": "compact"},
}

HASHTAGS = ("python", "kafka", "spark", "coffee", "cats", "news", "music", "football", "weather", "travel")
USERS = ("ada", "grace", "linus", "guido", "margaret", "dennis", "barbara", "ken", "edsger", "donald")
WORDS = ("today", "again", "never", "who", "said", "that", "we", "need", "more", "of", "this", "and", "it")


def events(seed: int, times: Iterable[datetime]) -> Iterator[tuple[str, str, dict[str, Any], datetime]]:
    random = Random(seed)
    for number, at in enumerate(times):
        # Each subject is popular for a while; distant subjects are rare.
        fashion = number // 300 % len(HASHTAGS)
        weights = [1.0 / (1 + (place - fashion) % len(HASHTAGS)) for place in range(len(HASHTAGS))]
        hashtags = sorted(set(random.choices(HASHTAGS, weights, k=random.choice((0, 1, 1, 2, 3)))))
        words = random.choices(WORDS, k=random.randint(3, 9))
        user = random.choice(USERS)
        tweet = {
            "id": number,
            "user": user,
            "text": " ".join([*words, *(f"#{hashtag}" for hashtag in hashtags)]),
            "hashtags": hashtags,
            "likes": int(random.expovariate(1 / 6)),
            "replies": int(random.expovariate(1 / 3)),
            "created_at": at.isoformat(),
        }
        yield "tweets", user, tweet, at
