"""Commands of a social network: people post, like, take a like back, and comment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from random import Random
from typing import Any

TOPICS = {
    "posts": {},
    "likes": {"partitions": "2"},
    "comments": {"partitions": "2"},
    "post-views": {"cleanup.policy": "compact"},
    "trending-posts": {"cleanup.policy": "compact"},
}

USERS = ("ada", "ben", "cleo", "dan", "eva", "finn", "gus", "hana")


def events(seed: int, times: Iterable[datetime]) -> Iterator[tuple[str, str, dict[str, Any], datetime]]:
    random = Random(seed)
    posts: list[str] = []
    liked: set[tuple[str, str]] = set()
    for number, at in enumerate(times):
        user, stamp = random.choice(USERS), at.isoformat()
        if not posts or random.random() < 0.1:
            post = f"post-{number}"
            posts.append(post)
            yield (
                "posts",
                post,
                {"post": post, "user": user, "text": f"This is thought {number}.", "at": stamp},
                at,
            )
            continue
        post = posts[
            -1 - min(int(random.expovariate(0.5)), len(posts) - 1)
        ]  # young posts get more of everything
        if random.random() < 0.7:
            # Who likes a post already takes it back.
            likes = (user, post) not in liked
            liked ^= {(user, post)}
            yield "likes", post, {"post": post, "user": user, "liked": likes, "at": stamp}, at
        else:
            yield "comments", post, {"post": post, "user": user, "text": f"Remark {number}", "at": stamp}, at
