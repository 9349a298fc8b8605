"""Topic names are accepted or rejected with Kafka's messages."""

from __future__ import annotations

import pytest

from ottla.metadata.cluster_image import ClusterImage, TopicImage
from ottla.metadata.nodes import validate_topic_name
from ottla.protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 249, "...", "__consumer_offsets"])
def test_a_legal_name_is_taken(name: str) -> None:
    validate_topic_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("ä", "'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a\n", "'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_an_illegal_name_is_refused_in_kafkas_words(name: str, reason: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_topic_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert caught.value.message == f"Topic name is invalid: {reason}"


def test_names_that_look_alike_in_metrics_collide() -> None:
    image = ClusterImage()
    for name in ("c", "a_b"):
        image.put_topic(TopicImage(name, bytes(16), {}))
    assert image.colliding_topic("a.b") == "a_b"
    image = ClusterImage()
    for name in ("a.b", "ab"):
        image.put_topic(TopicImage(name, bytes(16), {}))
    assert image.colliding_topic("a.b") is None
