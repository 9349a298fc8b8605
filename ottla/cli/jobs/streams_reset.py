"""The topics that Kafka Streams keeps in a cluster for an application."""

from __future__ import annotations

import re
from collections.abc import Collection

_INTERNAL = re.compile(
    r".+-(changelog|repartition|subscription-registration-topic|subscription-response-topic"
    r"|KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)"
)


def internal_topics(application: str, topics: Collection[str]) -> list[str]:
    """Those of `topics` that Kafka Streams made for the application."""
    return [
        name for name in sorted(topics) if name.startswith(f"{application}-") and _INTERNAL.fullmatch(name)
    ]
