"""``python -m bench.spark_formats``: Avro and Protobuf to columns beside `from_avro` and `from_protobuf`.

Their jars do not exist for the Spark that we run on. So the other side is an older Spark, in a virtual environment
of its own below the cache directory: the release for which Maven Central has them. Both read the same topics of the
same broker, in turn, each in a JVM of its own with the same memory and the same number of cores.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.apache_kafka import SCALA, Unavailable, cache_directory, resolve
from bench.peers.brokers import OttlaBroker, ottla_command
from bench.rows.spark_rows import OURS, Bench, Experiment, Scale

VERSION = "4.1.1"
_CONNECTOR = (
    f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{VERSION}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_{SCALA}:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
    f"org.scala-lang.modules:scala-parallel-collections_{SCALA}:1.2.0",
)
_PEER = Path(__file__).with_name("older_spark_peer.py")
_MEMORY = "2g"


@dataclass(frozen=True)
class Comparison:
    """One format; `described` is its schema as the other side takes it."""

    kind: str
    experiment: Experiment
    values: Callable[[], list[bytes]]
    described: str


def python() -> Path:
    """The interpreter of the older Spark, which is installed at the first time."""
    place = cache_directory() / f"pyspark-{VERSION}"
    found = place / "bin" / "python"
    done = place / "installed"
    if not done.exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
            install = [str(found), "-m", "pip", "install", "--quiet", f"pyspark=={VERSION}"]
            subprocess.run(install, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unavailable(f"PySpark {VERSION} cannot be installed in {place}: {error}") from None
        done.touch()
    return found


def jars(kind: str) -> str:
    """Of the connector and of the format. Unavailable, if Maven Central has no such format."""
    name = f"spark-{kind}-{VERSION}"
    format_jar = resolve(name, [f"org.apache.spark:spark-{kind}_{SCALA}:{VERSION}"], transitive=False)
    connector = resolve(f"spark-kafka-{VERSION}", _CONNECTOR, transitive=False)
    return ",".join(sorted(str(each) for place in (format_jar, connector) for each in place.glob("*.jar")))


def theirs(bench: Bench, comparison: Comparison, topic: str, repeat: int) -> list[float]:
    """Million rows a second, once for each repetition after the first."""
    from ottla.jvm.java import java_home

    given = {
        "servers": bench.servers,
        "topic": topic,
        "kind": comparison.kind,
        "schema": comparison.described,
        "repeat": repeat,
        "jars": jars(comparison.kind),
        "master": f"local[{os.cpu_count()}]",
        "memory": _MEMORY,
    }
    environment = {
        **{
            name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYTHONPATH"))
        },
        "JAVA_HOME": str(java_home()),
    }
    done = subprocess.run(
        # -P: modules beside the script, such as `profile`, must not stand for Python's own.
        [str(python()), "-P", str(_PEER), json.dumps(given)],
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Unavailable((done.stderr.strip().splitlines() or ["it failed"])[-1])
    seconds: list[float] = json.loads(done.stdout.strip().splitlines()[-1])
    return [bench.scale.rows(100) / each / 1e6 for each in seconds]


def main(comparisons: list[Comparison]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_formats", description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few rows; the figures mean little")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    from ottla.spark import session

    config = {"spark.driver.memory": _MEMORY, "spark.ui.enabled": "false"}
    scale = Scale.quick() if options.quick else Scale()
    rows: list[dict[str, Any]] = []
    broker = OttlaBroker(ottla_command()).start()
    try:
        spark = session("bench", config=config)
        bench = Bench(spark, broker.bootstrap_servers, scale)
        for each in comparisons:
            rows.append(_compared(bench, each, options.repeat))
        spark.stop()
    finally:
        broker.stop()
    if options.json:
        print(json.dumps(rows))
    for row in rows if not options.json else ():
        other = row["theirs"] or row["reason"]
        ratio = f", {row['ratio']:.2f} times" if row["ratio"] else ""
        print(f"{row['kind']}: {row['ours']:.3f} M rows/s, Spark {VERSION}: {other}{ratio}")
    return 0


def _compared(bench: Bench, comparison: Comparison, repeat: int) -> dict[str, Any]:
    topic = bench.filled(f"read-{comparison.kind}", comparison.values)
    name = comparison.experiment.figures[0].name
    ours = [comparison.experiment.measure(bench, OURS)[name] for _ in range(repeat + 1)][1:]
    found: list[float] = []
    reason = None
    try:
        found = theirs(bench, comparison, topic, repeat)
    except Unavailable as error:
        reason = f"not to be had ({error})"
    best = max(found, default=None)
    return {
        "kind": comparison.kind,
        "ours": max(ours),
        "theirs": best,
        "ratio": None if best is None else max(ours) / best,
        "reason": reason,
    }


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
