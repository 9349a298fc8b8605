"""Transactions a second: what an exactly-once pipeline can do at most, batch by batch."""

from __future__ import annotations

from bench.measuring.experiment import Experiment, Figures, Row, Scale, run_client, topic_on
from bench.peers.brokers import Contestant


def transactions(records: int) -> Experiment:
    row = Row(
        f"transactions of {records} record{'s' if records > 1 else ''}, confluent-kafka", "transactions/s"
    )

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        broker = contestant.shared()
        with topic_on(broker, 1) as topic:
            work = {"count": scale.transactions, "records": records}
            figures = run_client("transactions", bootstrap=broker.bootstrap_servers, topic=topic, **work)
        return {row.name: figures["transactions_per_s"]}

    return Experiment((row,), measure)
