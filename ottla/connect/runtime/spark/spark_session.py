"""The Spark session of a worker, set up for tasks that run for as long as their connector."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.connect.config.worker_config import WorkerConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A task takes one of Spark's slots for as long as it runs, and mostly waits. On this machine a slot is only a number.
_LOCAL_SLOTS = 512
_LOCAL = re.compile(r"local(\[(\*|\d+)\])?")

_SETTINGS = {
    # A second attempt at a task that merely runs on would fence the first.
    "spark.speculation": "false",
    "spark.scheduler.mode": "FAIR",
    # Python processes are forked from one that has loaded everything.
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
    """The master, with slots enough for all tasks where it is this machine and no number of cores was asked for."""
    found = _LOCAL.fullmatch(master.strip())
    if found is None or (found[2] is not None and found[2] != "*"):
        return master
    return f"local[{_LOCAL_SLOTS}]"
