"""ksqlDB statements on Spark.

from ottla.spark import session
from ottla.sql import SqlSession

sql = SqlSession(session("tweets"), bootstrap_servers="localhost:9092")
sql.execute("CREATE STREAM tweets (id BIGINT KEY, text STRING) WITH (kafka_topic='tweets', value_format='JSON');")
[result] = sql.execute("SELECT * FROM tweets;")
"""

from typing import TYPE_CHECKING, Any

from ottla.sql.errors import Position, SqlError
from ottla.sql.executing.results import Result
from ottla.sql.user_functions import udaf, udf, udtf

if TYPE_CHECKING:
    from ottla.sql.session import SqlSession, run_script

__all__ = ["Position", "Result", "SqlError", "SqlSession", "run_script", "udaf", "udf", "udtf"]


def __getattr__(name: str) -> Any:
    # Import lazily: SqlSession loads the parser and the planner, which Spark's workers do not need.
    if name in ("SqlSession", "run_script"):
        from ottla.sql import session

        return getattr(session, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
