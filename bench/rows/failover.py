"""The clients that live through a failure; they run as those of ``clients.py`` do."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from itertools import pairwise

from bench.rows.metadata import TOPIC_ALREADY_EXISTS, create_on, describe, wait_until_served

EVERY_SECONDS = 0.005


def acknowledgements(bootstrap: str, topic: str, partition: int) -> dict[str, float]:
    """Send a record every few milliseconds with librdkafka's default settings until SIGTERM.

    The longest gap between two acknowledgements is what an application notices of a failure. Every record has to
    arrive, those too that were sent while nobody led.
    """
    from confluent_kafka import Producer

    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    at: list[float] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            raise RuntimeError(f"a record was not delivered: {error}")
        at.append(time.monotonic())

    producer = Producer({"bootstrap.servers": bootstrap})
    said = False
    while not stopped:
        producer.produce(topic, bytes(100), partition=partition, on_delivery=delivered)
        producer.poll(EVERY_SECONDS)
        time.sleep(EVERY_SECONDS)
        if len(at) > 100 and not said:
            said = True
            at.clear()  # connecting is no failure
            print("ready", flush=True)
    if producer.flush(120):
        raise RuntimeError("the producer could not deliver everything within two minutes")
    gaps = [after - before for before, after in pairwise(at)]
    return {"acknowledged": len(at), "gap_seconds": max(gaps)}


def next_change(
    bootstrap: str, topic: str, partitions: int, victim: int, replicas: list[int]
) -> dict[str, float]:
    """Say "ready", wait for SIGTERM, and tell when a topic could be created, and when all of `topic` is led again.

    The new topic is on the brokers that live: what it waits for is somebody who decides, not who leads.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    address = describe(bootstrap).brokers[replicas[0]]
    print("ready", flush=True)
    signal.sigwait({signal.SIGTERM})
    after = f"{topic}-after-{victim}-{time.time_ns()}"
    while True:
        with suppress(OSError):
            if create_on(address, after, [replicas, replicas[::-1]]) in (0, TOPIC_ALREADY_EXISTS):
                break
        time.sleep(EVERY_SECONDS)
    wait_until_served(bootstrap, after, 2)
    changed_at = time.monotonic()
    while any(each.leader in (victim, -1) for each in describe(bootstrap, topic).partitions.values()):
        time.sleep(10 * EVERY_SECONDS)
    wait_until_served(bootstrap, topic, partitions)
    return {"changed_at": changed_at, "led_at": time.monotonic()}
