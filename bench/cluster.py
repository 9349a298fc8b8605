"""``python -m bench.cluster``: three brokers of Ottla beside three of Apache Kafka, in one table."""

from __future__ import annotations

import sys

from bench.measuring.driver import drive, parser
from bench.peers.clusters import apache_kafka, ottla
from bench.rows.cluster_rows import every_experiment

NOTES = (
    "Three brokers, factor 3, min.insync.replicas=2, acks=all; one side's cluster runs at a time, warmed up. Figures "
    "are the best of their repetitions, but for medians and worsts. MB are 10^6 bytes of record values, counted once. "
    "Ratio: how many times as good as Apache Kafka (Ottla ÷ Kafka where more is better, Kafka ÷ Ottla where less is). "
    "CPU: of all brokers, and of ZooKeeper. Limit: the same bytes three times through a bare loopback socket into a "
    "file."
)


def main() -> int:
    options = parser("python -m bench.cluster", __doc__).parse_args()
    return drive(options, every_experiment, ottla, apache_kafka, NOTES, one_at_a_time=True)


if __name__ == "__main__":
    sys.exit(main())
