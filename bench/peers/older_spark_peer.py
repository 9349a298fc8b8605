"""Run by `bench.peers.older_spark` with the interpreter of an older Spark: it knows nothing of Ottla."""

from __future__ import annotations

import base64
import json
import sys
import time
from typing import Any


def main(given: dict[str, Any]) -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(given["master"])
        .config("spark.driver.memory", given["memory"])
        .config("spark.jars", given["jars"])
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    options = {"kafka.bootstrap.servers": given["servers"], "subscribe": given["topic"]}
    if given["kind"] == "avro":
        from pyspark.sql.avro.functions import from_avro

        value = from_avro("value", given["schema"])
    else:
        from pyspark.sql.protobuf.functions import from_protobuf

        files = base64.b64decode(given["schema"])
        value = from_protobuf("value", "Event", binaryDescriptorSet=files)
    seconds = []
    for _ in range(given["repeat"] + 1):
        frame = spark.read.format("kafka").options(**options).load().select(value.alias("value"))
        begun = time.perf_counter()
        frame.select("value.*").where("likes >= 10").groupBy("tag").count().collect()
        seconds.append(time.perf_counter() - begun)
    spark.stop()
    print(json.dumps(seconds[1:]))  # the first one warms up


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
