"""Megabytes a second over TLS."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measuring.experiment import Experiment, Figures, Row, Scale, run_client, topic_on
from bench.measuring.wire import free_port
from bench.peers.brokers import Broker, Contestant, Secured, running
from bench.rows.throughput import throughput_label


@contextmanager
def _tls_broker(contestant: Contestant) -> Iterator[tuple[Broker, str, dict[str, str]]]:
    """A broker of its own, where it speaks TLS, and what librdkafka needs for that.

    No client certificates are checked, as few do where the network is one's own.
    """
    from ottla.security.certificates import make_authority

    directory = Path(tempfile.mkdtemp(prefix="ottla-bench-tls-"))
    try:
        authority = make_authority()
        issued = authority.issue("broker", ["127.0.0.1"])
        key_store, trust_store = directory / "broker.pem", directory / "ca.pem"
        key_store.write_bytes(issued.key_pem + issued.certificate_pem)
        trust_store.write_bytes(authority.certificate_pem)
        settings = {"ssl.keystore.location": str(key_store), "ssl.keystore.type": "PEM"}
        secured = Secured("SSL", free_port(), settings)
        with running(contestant, secured) as broker:
            security = {"security.protocol": "SSL", "ssl.ca.location": str(trust_store)}
            yield broker, f"127.0.0.1:{secured.port}", security
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def tls_throughput(size: int, partitions: int) -> Experiment:
    label = f"{throughput_label(size, partitions)}, TLS"
    produce = Row(f"produce {label}", "MB/s")
    consume = Row(f"consume {label}", "MB/s")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        with _tls_broker(contestant) as (broker, secured, security), topic_on(broker, partitions) as topic:
            work = {
                "bootstrap": secured,
                "topic": topic,
                "size": size,
                "partitions": partitions,
                "security": security,
            }
            records = scale.megabytes * 1_000_000 // size
            produced = run_client("produce_confluent", records=records, round_bytes=64_000_000, **work)
            consumed = run_client("consume_confluent", records=int(produced["records"]), **work)
        return {produce.name: produced["mb_per_s"], consume.name: consumed["mb_per_s"]}

    return Experiment((produce, consume), measure)
