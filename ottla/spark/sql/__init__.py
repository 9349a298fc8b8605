"""ksqlDB's statements on Spark.

from ottla.spark import session
from ottla.spark.sql import SqlSession

sql = SqlSession(session("tweets"), bootstrap_servers="localhost:9092")
sql.execute("CREATE STREAM tweets (id BIGINT KEY, text STRING) WITH (kafka_topic='tweets', value_format='JSON');")
[result] = sql.execute("SELECT * FROM tweets;")
"""

from typing import TYPE_CHECKING, Any

from ottla.spark.sql.errors import Position, SqlError
from ottla.spark.sql.executing.results import Result
from ottla.spark.sql.user_functions import udaf, udf, udtf

if TYPE_CHECKING:
    from ottla.spark.sql.session import SqlSession, run_script

__all__ = ["Position", "Result", "SqlError", "SqlSession", "run_script", "udaf", "udf", "udtf"]


def __getattr__(name: str) -> Any:
    # The parser and the planner come with it. Spark's workers, which run operators and functions, need neither.
    if name in ("SqlSession", "run_script"):
        from ottla.spark.sql import session

        return getattr(session, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
