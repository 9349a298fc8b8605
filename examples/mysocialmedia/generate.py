"""Commands of a social network: people post, like, unlike, comment, and delete posts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from random import Random
from typing import Any

TOPICS = {
    "posts": {},
    "likes": {"partitions": "2"},
    "comments": {"partitions": "2"},
    "posts_with_counts": {"cleanup.policy": "compact"},
    "trending_posts": {"cleanup.policy": "compact,delete", "retention.ms": "3600000"},
}

USERS = ("ada", "ben", "cleo", "dan", "eva", "finn", "gus", "hana")


def events(seed: int, times: Iterable[datetime]) -> Iterator[tuple[str, str, dict[str, Any], datetime]]:
    random = Random(seed)
    posts: list[tuple[str, str]] = []
    liked: set[tuple[str, str]] = set()
    for number, at in enumerate(times):
        user, stamp, chance = random.choice(USERS), at.isoformat(), random.random()
        if len(posts) < 2 or chance < 0.1:
            post = f"post-{number}"
            posts.append((post, user))
            text = f"This is thought {number}."
            yield "posts", post, {"post": post, "user": user, "text": text, "deleted": False, "at": stamp}, at
            continue
        # Young posts get more of everything.
        place = -1 - min(int(random.expovariate(0.5)), len(posts) - 1)
        post, author = posts[place]
        if chance < 0.13:
            del posts[place]
            yield "posts", post, {"post": post, "user": author, "deleted": True, "at": stamp}, at
        elif chance < 0.7:
            # A second like of a post removes the first.
            likes = (user, post) not in liked
            liked ^= {(user, post)}
            yield "likes", post, {"post": post, "user": user, "liked": likes, "at": stamp}, at
        else:
            yield "comments", post, {"post": post, "user": user, "text": f"Remark {number}", "at": stamp}, at
