"""Checkpoint directories on a cluster: does every node see the directory that the driver writes to?"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ottla.client.errors import ClientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL_SCHEMES = ("", "file")
_PROBES_PER_EXECUTOR = 4


class NotShared(ClientError):
    """Executors would look for checkpoints where the driver does not write them."""


def check_shared(spark: SparkSession, checkpoints: str) -> None:
    """Raise NotShared with one sentence if the directory cannot be written, or an executor does not see it.

    Does nothing on a single machine. Executors that join later are not checked.
    """
    master = spark.conf.get("spark.master", "") or ""
    if master.startswith("local") and not master.startswith("local-cluster"):
        return
    parts = urlsplit(checkpoints)
    if parts.scheme in _LOCAL_SCHEMES:
        _check_directory(spark, unquote(parts.path) if parts.scheme else checkpoints)
    else:
        _check_storage(spark, checkpoints, parts.scheme)


def _check_directory(spark: SparkSession, directory: str) -> None:
    probe = os.path.join(directory, f".ottla-{uuid.uuid4().hex}")
    try:
        os.makedirs(directory, exist_ok=True)
        with open(probe, "xb"):
            pass
    except OSError as error:
        raise NotShared(
            f"The checkpoint directory {directory} cannot be written: {error.strerror}."
        ) from None
    try:
        blind = sorted(set(_hosts_without(spark, probe)))
    finally:
        os.unlink(probe)
    if blind:
        raise NotShared(
            f"The checkpoint directory {directory} is not shared: {', '.join(blind[:3])} does not see it. Use storage "
            "that every node reaches, such as --checkpoints s3a://…, hdfs://… or a mounted network directory."
        )


def _hosts_without(spark: SparkSession, path: str) -> list[str]:
    context = spark.sparkContext
    executors = max(1, context._jsc.sc().getExecutorMemoryStatus().size() - 1)
    count = executors * _PROBES_PER_EXECUTOR

    def look(_: Iterator[int]) -> Iterator[str]:
        if not os.path.exists(path):
            yield socket.gethostname()

    found: list[str] = context.parallelize(range(count), count).mapPartitions(look).collect()
    return found


def _check_storage(spark: SparkSession, checkpoints: str, scheme: str) -> None:
    from py4j.protocol import Py4JJavaError

    jvm = spark.sparkContext._jvm
    assert jvm is not None
    try:
        path = jvm.org.apache.hadoop.fs.Path(checkpoints)
        path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).mkdirs(path)
    except Py4JJavaError as error:
        reason = str(error.java_exception.getMessage() or error.java_exception).partition("\n")[0]
        advice = "Check the address and the credentials."
        if "No FileSystem for scheme" in reason or "ClassNotFound" in str(error.java_exception):
            module = "org.apache.hadoop:hadoop-aws" if scheme.startswith("s3") else "the module for it"
            advice = f"Add {module} in the version of Spark's Hadoop, with --conf spark.jars.packages=…"
        raise NotShared(f"The checkpoints {checkpoints} cannot be written: {reason}. {advice}") from None
