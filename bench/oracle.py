"""Keep one Apache Kafka running beside a working session: ``python -m bench.oracle --port 19092``.

Prints where it listens and stays until it is interrupted; tests and tools can then be pointed at it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from bench.peers.apache_kafka import ApacheKafka, Unavailable


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.oracle", description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=19092)
    parser.add_argument("--data", type=Path, help="keep the data here (default: a temporary directory)")
    parser.add_argument("--pid-file", type=Path, help="write the broker's process id here")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a broker config")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    config = dict(setting.split("=", 1) for setting in options.set)
    try:
        with ApacheKafka(port=options.port, data=options.data, config=config) as kafka:
            if options.pid_file:
                options.pid_file.write_text(f"{kafka.pid}\n")
            print(
                f"Apache Kafka answers on {kafka.bootstrap_servers} (pid {kafka.pid}, "
                f"started in {kafka.startup_seconds:.1f} s, data in {kafka.log_dir})",
                flush=True,
            )
            stop.wait()
    except Unavailable as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
