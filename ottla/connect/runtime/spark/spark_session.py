"""The worker's Spark session, configured for long-running tasks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.connect.config.worker_config import WorkerConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A task occupies a Spark slot while it runs, but mostly waits. On a local master a slot is only a number.
_LOCAL_SLOTS = 512
_LOCAL = re.compile(r"local(\[(\*|\d+)\])?")

_SETTINGS = {
    # A speculative second attempt would fence the first.
    "spark.speculation": "false",
    "spark.scheduler.mode": "FAIR",
    # Fork Python processes from a daemon with preloaded modules.
    "spark.python.daemon.module": "ottla.connect.runtime.spark.worker_daemon",
}


def connect_session(worker: WorkerConfig) -> SparkSession:
    from ottla.spark.session import LIGHT_JVM, driver_java_options, session

    master = spark_master(worker.spark_master)
    settings = dict(_SETTINGS)
    if master.startswith("local"):
        settings["spark.driver.extraJavaOptions"] = driver_java_options(*LIGHT_JVM)
    return session(f"connect {worker.group_id}", master, {**settings, **worker.spark_settings})


def spark_master(master: str) -> str:
    """Return the master. A local master without an explicit core count gets enough slots for all tasks."""
    found = _LOCAL.fullmatch(master.strip())
    if found is None or (found[2] is not None and found[2] != "*"):
        return master
    return f"local[{_LOCAL_SLOTS}]"
