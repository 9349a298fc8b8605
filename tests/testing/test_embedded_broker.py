"""The testing kit, used as documented."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from ottla.broker.lifecycle.server import StartupError
from ottla.testing import Broker, ErrorCode

ROOT = Path(__file__).parents[2]


def producer_for(broker: Broker, **options: object) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, **options})


def test_two_brokers_run_side_by_side_and_share_nothing() -> None:
    with Broker() as one, Broker() as other:
        assert one.bootstrap_servers != other.bootstrap_servers
        one.create_topic("t")
        one.produce("t", b"here")
        other.create_topic("t")
        assert other.records("t") == []
        assert [record.value for record in one.records("t")] == [b"here"]


def test_its_directory_goes_with_it() -> None:
    with Broker() as broker:
        data = broker.data
        assert data.exists()
    assert not data.exists()


def test_data_of_yours_is_kept(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t", partitions=2)
        broker.produce(
            "t", b"kept", key=b"k", headers=[("h", b"x"), ("n", None)], partition=1, timestamp=1234
        )
    with Broker(data=tmp_path) as broker:
        [record] = broker.records("t", partition=1)
    assert (record.key, record.value, record.timestamp) == (b"k", b"kept", 1234)
    assert list(record.headers) == [("h", b"x"), ("n", None)]


def test_a_restart_keeps_address_records_and_committed_offsets(fresh_ottla_broker: Broker) -> None:
    broker = fresh_ottla_broker
    broker.create_topic("t")
    for number in range(3):
        broker.produce("t", str(number).encode())
    options = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer({**options, "enable.auto.commit": False})
    consumer.subscribe(["t"])
    message = consumer.poll(20)
    assert message is not None
    assert message.value() == b"0"
    consumer.commit(message, asynchronous=False)
    consumer.close()
    address = broker.bootstrap_servers
    broker.restart()
    assert broker.bootstrap_servers == address
    consumer = Consumer(options)
    consumer.subscribe(["t"])
    message = consumer.poll(20)
    assert message is not None
    assert message.value() == b"1"
    consumer.close()


def test_a_data_directory_in_use_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with Broker(data=tmp_path), pytest.raises(StartupError) as refused:
        Broker(data=tmp_path).start()
    assert str(tmp_path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_taken_port_is_refused_in_one_sentence() -> None:
    with Broker() as broker, pytest.raises(StartupError, match="taken by another program"):
        Broker(port=int(broker.bootstrap_servers.split(":")[1])).start()


def test_a_failing_start_leaves_nothing_running() -> None:
    broken = Broker(config={"log.retention.ms": "soon"})
    with pytest.raises(StartupError, match=r"log\.retention\.ms"):
        broken.start()
    broken.stop()


def test_a_broker_that_does_not_run_says_so() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        Broker().create_topic("t")


class TestFaults:
    def test_an_error_code_is_answered_as_often_as_asked(self, fresh_ottla_broker: Broker) -> None:
        fresh_ottla_broker.create_topic("t")
        fresh_ottla_broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
        results = []
        producer = producer_for(fresh_ottla_broker, **{"retry.backoff.ms": 10})
        producer.produce("t", b"v", on_delivery=lambda error, _: results.append(error))
        assert producer.flush(20) == 0
        assert results == [None]
        assert len(fresh_ottla_broker.records("t")) == 1

    def test_an_error_that_is_not_retriable_reaches_the_caller(self, fresh_ottla_broker: Broker) -> None:
        fresh_ottla_broker.create_topic("t")
        fresh_ottla_broker.fail("Produce", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        results = []
        producer = producer_for(fresh_ottla_broker)
        producer.produce("t", b"v", on_delivery=lambda error, _: results.append(error))
        assert producer.flush(20) == 0
        assert results[0].code() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert fresh_ottla_broker.records("t") == []

    def test_a_delay_delays(self, fresh_ottla_broker: Broker) -> None:
        fresh_ottla_broker.create_topic("t")
        producer = producer_for(fresh_ottla_broker)
        producer.produce("t", b"warm-up")
        assert producer.flush(20) == 0
        fresh_ottla_broker.delay("Produce", 0.5)
        began = time.monotonic()
        producer.produce("t", b"v")
        assert producer.flush(20) == 0
        assert time.monotonic() - began >= 0.5
        assert len(fresh_ottla_broker.records("t")) == 2

    def test_a_dropped_request_is_not_carried_out(self, fresh_ottla_broker: Broker) -> None:
        fresh_ottla_broker.create_topic("t")
        fresh_ottla_broker.drop("Produce")
        producer = producer_for(fresh_ottla_broker, retries=0, logger=None)
        results = []
        producer.produce("t", b"v", on_delivery=lambda error, _: results.append(error))
        assert producer.flush(20) == 0
        assert results[0] is not None
        assert fresh_ottla_broker.records("t") == []

    def test_a_lost_answer_doubles_without_idempotence_and_not_with_it(
        self, fresh_ottla_broker: Broker
    ) -> None:
        for topic, idempotent, expected in (("plain", False, 2), ("idempotent", True, 1)):
            fresh_ottla_broker.create_topic(topic)
            producer = producer_for(
                fresh_ottla_broker,
                **{"enable.idempotence": idempotent, "retry.backoff.ms": 10, "logger": None},
            )
            fresh_ottla_broker.drop("Produce", after=True)
            producer.produce(topic, b"v")
            assert producer.flush(20) == 0
            assert len(fresh_ottla_broker.records(topic)) == expected

    def test_faults_can_be_cleared(self, fresh_ottla_broker: Broker) -> None:
        fresh_ottla_broker.create_topic("t")
        fresh_ottla_broker.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", times=100)
        fresh_ottla_broker.clear_faults()
        producer = producer_for(fresh_ottla_broker)
        producer.produce("t", b"v")
        assert producer.flush(20) == 0
        assert len(fresh_ottla_broker.records("t")) == 1


def test_the_examples_of_the_readme_pass(pytester: pytest.Pytester) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    pytester.makepyfile("\n\n".join(block for block in blocks if "def test_" in block))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)


def test_misspelt_names_raise_with_a_suggestion(ottla_broker: Broker) -> None:
    with pytest.raises(ValueError, match="Did you mean 'Produce'"):
        ottla_broker.fail("Prodcue", "NOT_LEADER_OR_FOLLOWER")
    with pytest.raises(ValueError, match="Did you mean 'NOT_LEADER_OR_FOLLOWER'"):
        ottla_broker.fail("Produce", "NOT_LEADER_OR_FOLOWER")
    with pytest.raises(ValueError, match="Did you mean 'Fetch'"):
        ottla_broker.drop("fetch")
    with pytest.raises(ValueError, match=r"Did you mean 'log\.retention\.hours'"):
        Broker(config={"log.retention.hour": "1"})


def test_records_that_differ_are_shown_as_a_difference(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("compared", partitions=2)
    for number, value in enumerate((b"a", b"b", None)):
        ottla_broker.produce("compared", value, key=b"k%d" % number, partition=number % 2)
    ottla_broker.assert_records("compared", ["a", None], partition=0)
    ottla_broker.assert_records("compared", [("k0", "a"), ("k2", None), ("k1", "b")])
    with pytest.raises(AssertionError) as raised:
        ottla_broker.assert_records("compared", [("k0", "a"), ("k1", "c")], partition=0)
    assert str(raised.value).splitlines()[0] == "compared-0 has 2 records, expected 2:"
    assert "-'k1': 'c'" in str(raised.value)
    assert "+'k2': None" in str(raised.value)


def test_a_fault_chooses_its_requests(fresh_ottla_broker: Broker) -> None:
    broker = fresh_ottla_broker
    broker.create_topic("t")
    broker.fail("Produce", ErrorCode.INVALID_RECORD, client_id="bad", skip=1)
    outcomes: list[bool] = []
    for client_id in ("good", "bad", "bad", "bad"):
        producer = producer_for(broker, **{"client.id": client_id})
        producer.produce("t", b"x", on_delivery=lambda error, _: outcomes.append(error is None))
        producer.flush(30)
    assert outcomes == [True, True, False, True]
    assert len(broker.requests("Produce", client_id="bad")) == 3
    assert broker.faults() == []
