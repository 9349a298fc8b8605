"""Subscription patterns, matched against whole topic names."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.regular_expressions import RegexError, matcher


class TopicRegex:
    """A subscription pattern. Raises KafkaError(INVALID_REGULAR_EXPRESSION) for an invalid pattern."""

    def __init__(self, pattern: str) -> None:
        try:
            self.matches = matcher(pattern)
        except RegexError as error:
            raise KafkaError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
            ) from None

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(filter(self.matches, names))
