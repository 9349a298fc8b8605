"""GROUP BY over joins, in one SELECT."""

from __future__ import annotations

from tests.sql.cases.case import Case, In, Out

_S = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', partitions=1);"
_R = "CREATE STREAM r (k STRING KEY, w INT) WITH (kafka_topic='r', partitions=1);"
_T = "CREATE TABLE t (k STRING PRIMARY KEY, g STRING) WITH (kafka_topic='t', partitions=1);"
_U = "CREATE TABLE u (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='u', partitions=1);"
_F = "CREATE TABLE f (k STRING PRIMARY KEY, owner STRING) WITH (kafka_topic='f', partitions=1);"
GROUPED = "GROUP BY of joins"
_LOOKUP = f"{_S}{_T}CREATE TABLE o AS SELECT t.g AS g, COUNT(*) AS n FROM s JOIN t ON s.k = t.k"
_TABLES = f"{_T}{_U}CREATE TABLE o AS SELECT t.g AS g, SUM(u.v) AS s FROM t JOIN u ON t.k = u.k GROUP BY t.g"

CASES: list[Case] = [
    Case("a stream with a table", f"{_LOOKUP} GROUP BY t.g;",
         [In("t", "a", {"g": "x"}, 1), In("s", "a", {"v": 1}, 2), In("s", "b", {"v": 1}, 3), In("s", "a", {"v": 1}, 4)],
         [Out("O", "x", {"N": 1}, 2), Out("O", "x", {"N": 2}, 4)], grouped=GROUPED, telling=True),
    Case("a table that changes moves nothing of the stream", f"{_LOOKUP} GROUP BY t.g;",
         [In("t", "a", {"g": "x"}, 1), In("s", "a", {"v": 1}, 2), In("t", "a", {"g": "y"}, 3),
          In("s", "a", {"v": 1}, 4)],
         [Out("O", "x", {"N": 1}, 2), Out("O", "y", {"N": 1}, 4)], grouped=GROUPED),
    Case("a row that finds nothing is in no group",
         f"{_S}{_T}CREATE TABLE o AS SELECT t.g AS g, COUNT(*) AS n FROM s LEFT JOIN t ON s.k = t.k GROUP BY t.g;",
         [In("t", "a", {"g": "x"}, 1), In("s", "b", {"v": 1}, 2), In("s", "a", {"v": 1}, 3)],
         [Out("O", "x", {"N": 1}, 3)], grouped=GROUPED),
    Case("with windows", f"{_LOOKUP} WINDOW TUMBLING (SIZE 10 MILLISECONDS) GROUP BY t.g;",
         [In("t", "a", {"g": "x"}, 1), In("s", "a", {"v": 1}, 2), In("s", "a", {"v": 1}, 12)],
         [Out("O", "x", {"N": 1}, 2, (0, 10)), Out("O", "x", {"N": 1}, 12, (10, 20))], grouped=GROUPED),
    Case("with HAVING", f"{_LOOKUP} GROUP BY t.g HAVING COUNT(*) = 2;",
         [In("t", "a", {"g": "x"}, 1), *(In("s", "a", {"v": 1}, time) for time in (2, 3, 4))],
         [Out("O", "x", {"N": 2}, 3), Out("O", "x", None, 4)], grouped=GROUPED),
    Case("two streams",
         f"{_S}{_R}CREATE TABLE o AS SELECT s.k AS k, SUM(r.w) AS n FROM s JOIN r WITHIN 10 MILLISECONDS ON s.k = r.k "
         "GROUP BY s.k;",
         [In("s", "a", {"v": 1}, 0), In("r", "a", {"w": 5}, 5), In("r", "a", {"w": 6}, 7), In("r", "a", {"w": 7}, 50)],
         [Out("O", "a", {"N": 5}, 5), Out("O", "a", {"N": 11}, 7)], grouped=GROUPED),
    Case("two tables: a value changes", f"{_TABLES};",
         [In("t", "a", {"g": "x"}, 1), In("u", "a", {"v": 5}, 2), In("u", "a", {"v": 7}, 3)],
         [Out("O", "x", {"S": 5}, 2), Out("O", "x", {"S": 7}, 3)], grouped=GROUPED),
    Case("two tables: a row moves", f"{_TABLES};",
         [In("t", "a", {"g": "x"}, 1), In("u", "a", {"v": 5}, 2), In("t", "a", {"g": "y"}, 3)],
         [Out("O", "x", {"S": 5}, 2), Out("O", "x", {"S": 0}, 3), Out("O", "y", {"S": 5}, 3)], grouped=GROUPED),
    Case("two tables: a side is deleted", f"{_TABLES};",
         [In("t", "a", {"g": "x"}, 1), In("t", "b", {"g": "x"}, 1), In("u", "a", {"v": 5}, 2),
          In("u", "b", {"v": 1}, 3), In("u", "a", None, 4)],
         [Out("O", "x", {"S": 5}, 2), Out("O", "x", {"S": 6}, 3), Out("O", "x", {"S": 1}, 4)], grouped=GROUPED),
    Case("by a foreign key",
         f"{_F}{_T}CREATE TABLE o AS SELECT t.g AS g, COUNT(*) AS n FROM f JOIN t ON f.owner = t.k GROUP BY t.g;",
         [In("t", "1", {"g": "x"}, 1), In("f", "a", {"owner": "1"}, 2), In("f", "b", {"owner": "1"}, 3),
          In("t", "1", {"g": "y"}, 4)],
         [Out("O", "x", {"N": 0}), Out("O", "y", {"N": 2})], grouped=GROUPED, ways=("all at once",)),
]  # fmt: skip
