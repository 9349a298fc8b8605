"""Spark session of a mirror."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.spark.session import LIGHT_JVM, default_master, driver_java_options, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    # A speculative second attempt would copy a range twice.
    "spark.speculation": "false",
    # Workers are forked from a daemon that has already imported everything.
    "spark.python.daemon.module": "ottla.mirror.worker_daemon",
}


def mirror_session(
    app_name: str, master: str | None, config: Mapping[str, str] | None = None
) -> SparkSession:
    settings = dict(_SETTINGS)
    if (master or default_master()).startswith("local"):
        settings["spark.driver.extraJavaOptions"] = driver_java_options(*LIGHT_JVM)
    return session(app_name, master, {**settings, **(config or {})})
