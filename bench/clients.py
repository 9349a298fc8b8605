"""The clients that load a broker. Each runs in a process of its own: ``python -m bench.clients NAME JSON``.

The driver never shares an interpreter with a client, so that neither slows the other down. A client
takes its arguments as one JSON object, prints its figures as one JSON object and says nothing else.
"""

from __future__ import annotations

import json
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from bench.measuring import wire
from bench.measuring.figures import percentiles_us
from bench.peers.brokers import allow_many_files, resident_mb
from bench.rows.failover import acknowledgements, next_change
from bench.rows.topics import create_topic, delete_topic, served

DRAIN_RECORDS = 900  # records of 1 KB in each batch of the topic that `drain` reads: just under 1 MiB
WINDOW_FRAMES, WINDOW = 200, 2_000


def produce_confluent(
    bootstrap: str,
    topic: str,
    size: int,
    records: int,
    partitions: int,
    round_bytes: int,
    security: dict[str, str] | None = None,
) -> dict[str, float]:
    """Fill librdkafka's queue, then time how long it takes to empty: the broker's share, not Python's.

    A long linger and a huge batch.size keep everything in the queue until flush(); what goes on the
    wire are batches of up to message.max.bytes (1 MB).
    """
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 60_000,
            "batch.size": 2_000_000_000,
            "batch.num.messages": 1_000_000,
            "queue.buffering.max.messages": 0,
            "queue.buffering.max.kbytes": 2_000_000,
            "delivery.report.only.error": True,
            **(security or {}),
        }
    )
    warm = [{"value": b"warm"}]
    for partition in range(partitions):
        producer.produce_batch(topic, warm, partition)
    _flushed(producer)
    chunk = [{"value": bytes(size)}] * max(1, min(1_000, records // partitions))
    per_round = max(partitions * len(chunk), round_bytes // size)
    sent, busy, partition = 0, 0.0, 0
    while sent < records:
        queued = 0
        while queued < per_round and sent + queued < records:
            queued += producer.produce_batch(topic, chunk, partition)
            partition = (partition + 1) % partitions
        began = time.perf_counter()
        _flushed(producer)
        busy += time.perf_counter() - began
        sent += queued
    return {"records": sent + partitions, "mb_per_s": sent * size / busy / 1e6}


def _flushed(producer: Any) -> None:
    if producer.flush(120):
        raise RuntimeError("the producer could not deliver everything within two minutes")


def consume_confluent(
    bootstrap: str,
    topic: str,
    size: int,
    records: int,
    partitions: int,
    security: dict[str, str] | None = None,
) -> dict[str, float]:
    """Read a topic from its beginning, from the first record to the last.

    How long the first one takes (librdkafka looks for a coordinator, too) is told apart.
    """
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": 10_000_000,
            "queued.max.messages.kbytes": 2_097_151,
            "fetch.queue.backoff.ms": 1,
            "check.crcs": False,
            **(security or {}),
        }
    )
    for partition in range(partitions):  # connected, and every leader known
        consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
    assigned = time.perf_counter()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    got = len(consumer.consume(1, 60))
    began = last = time.perf_counter()
    while got < records:
        # Never more than are left: consume() waits for all it is asked for.
        messages = consumer.consume(min(20_000, records - got), 0.5)
        if messages:
            last = time.perf_counter()
            got += len(messages)
            if messages[-1].error():
                raise RuntimeError(str(messages[-1].error()))
        elif time.perf_counter() - last > 60:
            raise RuntimeError(f"only {got} of {records} records came")
    consumer.close()
    return {
        "records": got,
        "mb_per_s": got * size / (last - began) / 1e6,
        "first_record_seconds": began - assigned,
    }


def requests(host: str, port: int, topic: str, count: int, size: int) -> dict[str, float]:
    """One-record Produce requests, pipelined on one connection with at most WINDOW of them unanswered."""
    batch = wire.record_batch([bytes(size)])
    frames = b"".join(
        wire.produce_frame(topic, 0, batch, correlation_id=number) for number in range(WINDOW_FRAMES)
    )
    with wire.connect(host, port, timeout=60) as connection:
        first = wire.produce(connection, topic, frames[: len(frames) // WINDOW_FRAMES])
        connection.sendall(wire.produce_frame(topic, 0, batch))
        answer_size = 4 + len(wire.read_response(connection))
        rounds = count // WINDOW_FRAMES
        ahead = WINDOW * answer_size
        buffer = memoryview(bytearray(1 << 20))
        expected = received = 0
        tail = b""
        began = time.perf_counter()
        for _ in range(rounds):
            connection.sendall(frames)
            expected += WINDOW_FRAMES * answer_size
            while expected - received > ahead:
                received += _received(connection, buffer)
        while received < expected:
            got = _received(connection, buffer)
            received += got
            tail = (tail + bytes(buffer[:got]))[-answer_size:]
        elapsed = time.perf_counter() - began
    sent = rounds * WINDOW_FRAMES
    error, last = wire.produce_result(tail[4:], topic)
    # Every answer has the same size, so the offset of the last one tells whether all were accepted.
    if error or (last >= 0 and last != first + 1 + sent):
        raise RuntimeError(f"the last of {sent} requests got error {error} and offset {last}")
    return {"requests_per_s": sent / elapsed}


def _received(connection: socket.socket, buffer: memoryview) -> int:
    got = connection.recv_into(buffer)
    if not got:
        raise ConnectionError("the broker closed the connection")
    return got


def round_trip(
    host: str, port: int, topic: str, count: int, warm_up: int, size: int, partitions: int
) -> dict[str, float]:
    """One-record Produce requests, each waiting for its answer, going round all partitions of the topic."""
    with wire.connect(host, port, timeout=None) as connection:
        return measure_round_trips(connection, topic, count, warm_up, size, partitions)


def measure_round_trips(
    connection: socket.socket, topic: str, count: int, warm_up: int, size: int, partitions: int
) -> dict[str, float]:
    batch = wire.record_batch([bytes(size)])
    frames = [wire.produce_frame(topic, partition, batch) for partition in range(partitions)]
    for request in frames:  # every partition once, each answer checked
        wire.produce(connection, topic, request)
    connection.settimeout(None)
    times = []
    clock, send, recv = time.perf_counter_ns, connection.send, connection.recv
    for number in range(warm_up + count):
        request = frames[number % partitions]
        began = clock()
        send(request)
        answer = recv(4096)
        times.append(clock() - began)
        if len(answer) < 20:
            raise ConnectionError("the broker closed the connection or answered in pieces")
    return percentiles_us(times[warm_up:])


def end_to_end(bootstrap: str, topic: str, count: int, warm_up: int, size: int) -> dict[str, float]:
    """From produce() to the record in the hands of a consumer that waits for it; one record at a time."""
    from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "socket.nagle.disable": True,
            "delivery.report.only.error": True,
        }
    )
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "socket.nagle.disable": True,
            "fetch.queue.backoff.ms": 1,
            "fetch.min.bytes": 1,
        }
    )
    value = bytes(size)
    producer.produce(topic, value, partition=0)
    _flushed(producer)
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    consumer.poll(1)  # positioned at the end before the first record is sent
    times = []
    for _ in range(warm_up + count):
        began = time.perf_counter_ns()
        producer.produce(topic, value, partition=0)
        message = consumer.poll(30)
        times.append(time.perf_counter_ns() - began)
        if message is None or message.error():
            raise RuntimeError(f"no record came back: {message and message.error()}")
        producer.poll(0)
    _flushed(producer)
    consumer.close()
    return percentiles_us(times[warm_up:])


def fill(host: str, port: int, topic: str, batches: int) -> dict[str, float]:
    """Put batches of DRAIN_RECORDS records of 1 KB into partition 0, for `drain` to read."""
    batch = wire.record_batch([bytes(1_000)] * DRAIN_RECORDS)
    request = wire.produce_frame(topic, 0, batch)
    with wire.connect(host, port) as connection:
        for _ in range(batches):
            wire.produce(connection, topic, request)
    return {"batches": batches}


def drain(host: str, port: int, topic: str, batches: int) -> dict[str, float]:
    """Consume at full speed until SIGTERM: raw fetches of one batch each, thrown away unread.

    The offsets are known (see `fill`), so no time goes into parsing.
    """
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    batch_size = len(wire.record_batch([bytes(1_000)] * DRAIN_RECORDS))
    frames = [wire.fetch_frame(topic, 0, number * DRAIN_RECORDS, batch_size) for number in range(batches)]
    buffer = memoryview(bytearray(4 << 20))
    received = number = 0
    with wire.connect(host, port, timeout=None) as connection:
        began = time.perf_counter()
        while not stopped:
            connection.sendall(frames[number % batches])
            (size,) = struct.unpack(">i", wire.read_exactly(connection, 4))
            if size < batch_size:
                raise RuntimeError(f"a fetch was answered with {size} bytes")
            left = size
            while left:
                got = connection.recv_into(buffer, left, socket.MSG_WAITALL)
                if not got:
                    raise ConnectionError("the broker closed the connection")
                left -= got
            received += size
            number += 1
            if number == 1:
                print("ready", flush=True)
    return {"mb_per_s": received / (time.perf_counter() - began) / 1e6}


def connections(
    host: str, port: int, topic: str, count: int, pid: int, round_trips: int, warm_up: int
) -> dict[str, float]:
    """Open many connections, get ApiVersions answered on each, then measure round trips on one of them.

    They are opened in waves smaller than a listen backlog, so that no SYN is dropped and retried.
    """
    allow_many_files()
    before = resident_mb(pid)
    opened: list[socket.socket] = []
    began = time.perf_counter()
    while len(opened) < count:
        wave = [wire.connect(host, port) for _ in range(min(40, count - len(opened)))]
        for connection in wave:
            connection.sendall(wire.API_VERSIONS_FRAME)
        for connection in wave:
            wire.read_response(connection)
        opened += wave
    elapsed = time.perf_counter() - began
    memory = resident_mb(pid)
    figures = measure_round_trips(opened[len(opened) // 2], topic, round_trips, warm_up, 100, 1)
    for connection in opened:
        connection.close()
    return {"seconds": elapsed, "resident_mb": memory, "grown_mb": memory - before, **figures}


def embedded() -> dict[str, float]:
    """Time to enter ``with ottla.testing.Broker()`` and get ApiVersions answered, without the import."""
    from ottla.testing import Broker

    began = time.perf_counter()
    with Broker() as broker:
        host, port = broker.bootstrap_servers.split(",")[0].rsplit(":", 1)
        with wire.connect(host, int(port)) as connection:
            wire.ask_api_versions(connection)
        elapsed = time.perf_counter() - began
    return {"seconds": elapsed}


def transactions(bootstrap: str, topic: str, count: int, records: int) -> dict[str, float]:
    """One transaction after the other, each with so many records, each committed before the next begins."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": topic,
            "linger.ms": 0 if records == 1 else 5,
            "socket.nagle.disable": True,
            "delivery.report.only.error": True,
        }
    )
    producer.init_transactions(60)
    warm_up = count // 5
    for number in range(warm_up + count):
        if number == warm_up:
            start = time.perf_counter()
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(topic, value=bytes(100))
        producer.commit_transaction(60)
    return {"transactions_per_s": count / (time.perf_counter() - start)}


def logins(port: int, mechanism: str, user: str, password: str, count: int) -> dict[str, float]:
    """Connect, log in with SCRAM and hang up, one after the other."""
    from ottla.protocol.messages.sasl import (
        SaslAuthenticateRequest,
        SaslAuthenticateResponse,
        SaslHandshakeRequest,
    )
    from ottla.security.sasl import scram

    def log_in(number: int) -> None:
        with wire.connect("127.0.0.1", port) as connection:
            body = SaslHandshakeRequest(mechanism=mechanism).encode(1)
            connection.sendall(wire.frame(17, 1, number, body, flexible=False))
            wire.read_response(connection)
            exchange = scram.log_in(mechanism, user, password)
            token = next(exchange)
            with suppress(StopIteration):
                while True:
                    body = SaslAuthenticateRequest(auth_bytes=token).encode(1)
                    connection.sendall(wire.frame(36, 1, number, body, flexible=False))
                    answer = SaslAuthenticateResponse.decode(wire.read_response(connection), 1, 4)
                    if answer.error_code:
                        raise RuntimeError(f"the login was refused: {answer.error_message}")
                    token = exchange.send(bytes(answer.auth_bytes))

    times = []
    for number in range(count + count // 5):
        began = time.perf_counter_ns()
        log_in(number)
        times.append(time.perf_counter_ns() - began)
    return percentiles_us(times[count // 5 :])


def add_acls(bootstrap: str, topic: str, count: int) -> dict[str, float]:
    """Let everybody use a topic, and let many others do something elsewhere."""
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    def acl(name: str, pattern: Any, principal: str) -> Any:
        return AclBinding(
            ResourceType.TOPIC, name, pattern, principal, "*", AclOperation.ALL, AclPermissionType.ALLOW
        )

    acls = [acl(topic, ResourcePatternType.LITERAL, "User:ANONYMOUS")]
    for number in range(count - 1):
        # Some are about prefixes of the topic, so that they have to be looked at.
        pattern = ResourcePatternType.PREFIXED if number % 2 else ResourcePatternType.LITERAL
        name = topic[: 1 + number % len(topic)] if number % 20 == 1 else f"other-{number}"
        acls.append(acl(name, pattern, f"User:user-{number}"))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_acls(acls).values():
        future.result(60)
    return {"acls": float(len(acls))}


def add_user(bootstrap: str, user: str, password: str) -> dict[str, float]:
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    change = UserScramCredentialUpsertion(
        user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password.encode()
    )
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(60)
    return {}


CLIENTS: dict[str, Callable[..., dict[str, float]]] = {
    client.__name__: client
    for client in (
        produce_confluent,
        consume_confluent,
        requests,
        round_trip,
        end_to_end,
        transactions,
        logins,
        add_acls,
        add_user,
        fill,
        drain,
        connections,
        embedded,
        create_topic,
        delete_topic,
        served,
        acknowledgements,
        next_change,
    )
}


if __name__ == "__main__":
    print(json.dumps(CLIENTS[sys.argv[1]](**json.loads(sys.argv[2]))), flush=True)
