"""Keys."""

from __future__ import annotations

from tests.spark.sql.cases.case import Case, In, Out

_S = "CREATE STREAM s (k STRING KEY, a INT, b STRING) WITH (kafka_topic='s', partitions=1);"

CASES: list[Case] = [
    Case(
        "a column becomes the key",
        _S + "CREATE STREAM o AS SELECT a, k, b FROM s PARTITION BY a;",
        [In("s", "x", {"a": 1, "b": "p"}, 10), In("s", "y", {"a": 2, "b": "q"}, 20)],
        [Out("O", 1, {"K": "x", "B": "p"}, 10), Out("O", 2, {"K": "y", "B": "q"}, 20)],
        grouped="PARTITION BY",
    ),
    Case(
        "a count per key",
        _S + "CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;",
        [In("s", "x", {"a": 1}, 10), In("s", "y", {"a": 2}, 20), In("s", "x", {"a": 2}, 30)],
        [Out("O", "x", {"N": 1}, 10), Out("O", "y", {"N": 1}, 20), Out("O", "x", {"N": 2}, 30)],
        grouped="GROUP BY",
        telling=True,
    ),
]
