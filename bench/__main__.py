"""``python -m bench``: Ottla beside Apache Kafka and beside what the machine allows, in one table."""

from __future__ import annotations

import sys

from bench.measuring.driver import drive, parser
from bench.measuring.plan import every_experiment
from bench.peers.brokers import apache_kafka, ottla

NOTES = (
    "Every figure is the best of its repetitions. MB are 10^6 bytes of record values. "
    "Ratio: how many times as good as Apache Kafka (Ottla ÷ Kafka where more is better, Kafka ÷ Ottla "
    "where less is). Limit: the same bytes through bare loopback sockets and files, without a broker."
)


def main() -> int:
    options = parser("python -m bench", __doc__).parse_args()
    return drive(options, every_experiment, ottla, apache_kafka, NOTES)


if __name__ == "__main__":
    sys.exit(main())
