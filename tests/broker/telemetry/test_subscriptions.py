"""Matching clients to metric subscriptions, and rejected pushes."""

from __future__ import annotations

import pytest

from ottla.broker.telemetry import ClientFacts, Instance, Subscriptions
from ottla.protocol.errors import ErrorCode, KafkaError

FACTS = ClientFacts("app-1", "librdkafka", "2.12.0", "10.0.0.1", "4711")
ME = bytes(range(16))
MAX = 1000


class Asking:
    def __init__(self, **configs: dict[str, str]) -> None:
        self.configs = configs
        self.subscriptions = Subscriptions(lambda: self.configs)
        self.now = 1_000_000

    def ask(self, facts: ClientFacts = FACTS, client: bytes = ME) -> Instance:
        return self.subscriptions.ask(client, facts, self.now)[1]

    def push(
        self,
        subscription: int,
        *,
        terminating: bool = False,
        codec: int = 4,
        size: int = 10,
        client: bytes = ME,
    ) -> None:
        self.subscriptions.check_push(
            client,
            FACTS,
            subscription_id=subscription,
            terminating=terminating,
            codec=codec,
            size=size,
            max_size=MAX,
            now_ms=self.now,
        )


def refused(code: ErrorCode) -> pytest.RaisesContext[KafkaError]:
    return pytest.raises(KafkaError, check=lambda error: error.code == code)


def test_without_subscriptions_nothing_is_asked_for() -> None:
    asked = Asking().ask()
    assert (asked.metrics, asked.interval_ms) == ([], 300_000)


def test_all_that_match_add_up_and_the_shortest_interval_counts() -> None:
    asked = Asking(
        a={"metrics": "org.apache.kafka.producer.", "interval.ms": "60000"},
        b={"metrics": "org.apache.kafka.consumer.,org.apache.kafka.producer.", "match": "client_id=app-.*"},
        c={"metrics": "other", "match": "client_software_name=apache-kafka-java", "interval.ms": "100"},
        d={"interval.ms": "100"},
    ).ask()
    assert asked.metrics == ["org.apache.kafka.consumer.", "org.apache.kafka.producer."]
    assert asked.interval_ms == 60_000


def test_every_criterion_has_to_match_as_a_whole() -> None:
    asking = Asking(a={"metrics": "m", "match": "client_id=app,client_source_port=4711"})
    assert asking.ask().metrics == []
    asking.configs = {"a": {"metrics": "m", "match": "client_id=app.*,client_source_port=4711"}}
    asking.now += 300_000
    assert asking.ask().metrics == ["m"]


def test_a_star_is_everything() -> None:
    assert Asking(a={"metrics": "x,*"}, b={"metrics": "y"}).ask().metrics == ["*"]


def test_a_client_without_an_id_gets_one_and_an_id_of_a_subscription_that_is_its_own() -> None:
    asking = Asking(a={"metrics": "m"})
    one, first = asking.subscriptions.ask(bytes(16), FACTS, 0)
    two, second = asking.subscriptions.ask(bytes(16), FACTS, 0)
    assert len({bytes(16), one, two}) == 3
    assert first.subscription_id != second.subscription_id
    assert -(1 << 31) <= first.subscription_id < 1 << 31


def test_who_asks_again_too_early_is_throttled() -> None:
    asking = Asking(a={"metrics": "m", "interval.ms": "1000"})
    asking.ask()
    with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        asking.ask()
    asking.now += 1000
    asking.ask()


def test_a_push_is_taken_once_an_interval() -> None:
    asking = Asking(a={"metrics": "m", "interval.ms": "1000"})
    number = asking.ask().subscription_id
    asking.push(number)
    with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        asking.push(number)
    asking.now += 1000
    asking.push(number)
    asking.push(number, terminating=True)  # a terminating push is always allowed
    with refused(ErrorCode.INVALID_REQUEST):
        asking.push(number, terminating=True)


def test_a_change_makes_the_subscription_unknown_and_asking_mends_it() -> None:
    asking = Asking(a={"metrics": "m", "interval.ms": "1000"})
    before = asking.ask().subscription_id
    asking.push(before)
    asking.configs = {"a": {"metrics": "n", "interval.ms": "1000"}}
    asking.now += 1000
    with refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID):
        asking.push(before)
    asking.now += 1
    asked = asking.ask()
    assert asked.metrics == ["n"]
    assert asked.subscription_id != before
    asking.push(asked.subscription_id)


def test_what_is_too_large_or_compressed_otherwise_is_refused() -> None:
    asking = Asking(a={"metrics": "m", "interval.ms": "1000"})
    number = asking.ask().subscription_id
    with refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
        asking.push(number, codec=7)
    asking.now += 1
    asking.ask()
    with refused(ErrorCode.TELEMETRY_TOO_LARGE):
        asking.push(number, size=MAX + 1)
    with refused(ErrorCode.INVALID_REQUEST):
        asking.push(number, client=bytes(16))
