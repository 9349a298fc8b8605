"""All parts that need Spark, on one session: a Connect worker, SQL queries, a mirror.

    python -m tests.soak.spark_parts DIRECTORY CLIENT_FILE TARGET CONNECT

CLIENT_FILE holds the admin's settings for the secured cluster, TARGET is the mirror's other cluster, CONNECT is the
worker's address. Runs until SIGTERM, and restarts failed SQL queries.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from ottla.cli.commands.connect_worker import _DEFAULTS, with_clients
from ottla.cli.commands.servers.http_servers import file_properties
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.worker.server import ConnectServer
from ottla.connect.worker.spark_engine import SparkEngine
from ottla.http.background import InBackground
from ottla.mirror.mirror_maker import MirrorMaker
from ottla.mirror.settings import parse_flows
from ottla.sql import SqlSession

READY = "The parts on Spark are ready."
SCRIPT = """
SET 'auto.offset.reset' = 'earliest';
CREATE STREAM numbers (k STRING KEY, n BIGINT) WITH (kafka_topic='numbers', value_format='JSON');
CREATE STREAM passed WITH (kafka_topic='passed', partitions=1) AS SELECT k, n FROM numbers;
CREATE TABLE counts WITH (kafka_topic='counts', partitions=1) AS
    SELECT k, COUNT(*) AS c, SUM(n) AS s, TOPK(n, 1) AS top FROM numbers GROUP BY k HAVING COUNT(*) > 0;
"""


def main(directory: Path, client_file: Path, target: str, connect: str) -> None:
    from pyspark.sql import SparkSession

    stopping = threading.Event()
    client = file_properties(client_file)
    security = {name: value for name, value in client.items() if name != "bootstrap.servers"}
    worker = WorkerConfig.from_properties(
        {
            **_DEFAULTS,
            **with_clients(client),
            "listeners": f"http://{connect}",
            "exactly.once.source.support": "enabled",
            "connector.file.directories": str(directory),  # for the JDBC sink's database
            "offset.flush.interval.ms": "2000",
            "spark.sql.shuffle.partitions": "2",
        }
    )
    server = InBackground(lambda: ConnectServer(worker, SparkEngine), "connect").start()
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    session = SqlSession(
        spark.newSession(),
        bootstrap_servers=client["bootstrap.servers"],
        properties=security,
        checkpoints=str(directory / "checkpoints"),
    )
    session.execute(SCRIPT)
    flows = parse_flows(
        {
            "clusters": "soak, copy",
            **{f"soak.{name}": value for name, value in client.items()},
            "copy.bootstrap.servers": target,
            "soak->copy.enabled": "true",
            "topics": "numbers",
            "replication.factor": "1",
        }
    )
    mirror = MirrorMaker(spark, flows)
    mirror.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    print(READY, flush=True)
    while not stopping.wait(2):
        for running in session.queries.all():
            if not running.is_active:
                failure = None if running.query is None else running.query.exception()
                print(f"{running.query_id} is started again: {str(failure)[:300]}", flush=True)
                try:
                    session.queries.resume(running.query_id)
                except Exception as error:
                    print(f"{running.query_id} cannot start: {error}", flush=True)
    mirror.stop()
    session.stop()
    server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
