"""Brokers, catalogue, queries and Spark, which all conversations of a session share."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ottla.spark import queries
from ottla.spark.shared_storage import check_shared
from ottla.sql.brokers import Brokers
from ottla.sql.catalogue import Catalogue
from ottla.sql.engine import Engine
from ottla.sql.executing.places import Places
from ottla.sql.executing.planner import Planner
from ottla.sql.executing.running_queries import RunningQueries
from ottla.sql.planning.functions import names
from ottla.sql.properties import registry_properties
from ottla.sql.registered.schemas import Schemas
from ottla.sql.user_functions import UserFunction, UserFunctions
from ottla.sql.user_functions.loading import load
from ottla.sql.user_functions.running import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Shared:
    """The first statement that needs Spark starts it. `SqlSession` describes the parameters."""

    def __init__(
        self,
        spark: SparkSession | Callable[[], SparkSession],
        *,
        bootstrap_servers: str | None,
        checkpoints: str | None,
        properties: Mapping[str, str] | None,
        functions: Sequence[str | Path | ModuleType | UserFunction],
        schema_registry: str | Mapping[str, str] | None,
    ) -> None:
        self.functions = UserFunctions(load(functions), reserved=names())
        self._spark = spark
        self.owns_spark = not hasattr(spark, "readStream")
        servers = bootstrap_servers or queries.bootstrap_servers(self._session(), None)
        self.brokers = Brokers(servers, properties)
        self.catalogue = Catalogue(self.brokers)
        self.queries = RunningQueries()
        if schema_registry is None and not self.owns_spark:
            schema_registry = queries.registry_options(self._session())
        self.registry = registry_properties(schema_registry)
        self.checkpoints = checkpoints
        self._engine: Engine | None = None
        self._starting_spark = threading.Lock()
        #: Whether to limit simultaneous query starts, because many clients may start queries at once.
        self.paced = False
        #: Whether clients cannot choose another schema registry.
        self.registry_is_fixed = False
        #: Values of properties for other conversations, instead of their usual defaults.
        self.defaults: Mapping[str, str] = {}
        #: Numbers for the query ids of INSERT INTO … SELECT.
        self.insert_numbers: Iterator[int] = itertools.count(1)
        self.places = Places(self.brokers, self._checkpoints_directory)
        self.planner = Planner(self.catalogue, self.brokers, self.functions)

    @property
    def uses_spark(self) -> bool:
        return self._engine is not None

    def engine(self, schemas: Schemas) -> Engine:
        """Return the engine for a client with these schemas."""
        with self._starting_spark:
            if self._engine is None:
                if self.owns_spark and (checkpoints := self._checkpoints_directory()) is not None:
                    check_shared(self._session(), checkpoints)
                engine = Engine(self._session(), self.brokers, schemas, paced=self.paced)
                register(engine.spark, self.functions.all())
                self._engine = engine
            return self._engine.asking(schemas)

    def stop_spark(self) -> None:
        """Stop Spark if this session started it."""
        if self.owns_spark and self._engine is not None:
            engine, self._engine = self._engine, None
            engine.spark.stop()

    def _session(self) -> SparkSession:
        if not hasattr(self._spark, "readStream"):
            self._spark = self._spark()
        return self._spark

    def _checkpoints_directory(self) -> str | None:
        if self.checkpoints is None and hasattr(self._spark, "readStream"):
            configured: str | None = self._session().conf.get(queries.CHECKPOINTS, None)
            return configured
        return self.checkpoints
