"""The names of confluent_kafka.admin, loaded on first use.

The library is typed but does not declare these names as exported, which strict type checking refuses;
here they are untyped instead.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import confluent_kafka.admin

    return getattr(confluent_kafka.admin, name)
