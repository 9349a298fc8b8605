"""SQL session: statements in, results out. The first statement that needs Spark starts it."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ottla.sql.engine import Engine
from ottla.sql.errors import SqlError, spark_errors_at
from ottla.sql.executing.alterations import (
    alter,
    assert_schema,
    assert_topic,
    check_replacement,
    create_type,
    drop_type,
)
from ottla.sql.executing.ending import pause_or_resume, terminate
from ottla.sql.executing.explaining import graph
from ottla.sql.executing.function_listing import describe_function, show_functions
from ottla.sql.executing.insert_values import records
from ottla.sql.executing.listing import describe, show
from ottla.sql.executing.printing import printed
from ottla.sql.executing.results import Result
from ottla.sql.executing.running_queries import Running
from ottla.sql.parsing import statements as s
from ottla.sql.parsing.parser import statements
from ottla.sql.planning.plan import Plan
from ottla.sql.planning.target import check_target, definition, same_statement
from ottla.sql.properties import SCAN, TOPIC_PREFIX, WRAPS, SessionProperties
from ottla.sql.pull.plain_rows import named_types
from ottla.sql.pull.pull import PullQueries
from ottla.sql.registered.schemas import Schemas
from ottla.sql.shared import Shared
from ottla.sql.sources import Source, TopicShape, from_statement, shape
from ottla.sql.sql_types import from_spark
from ottla.sql.user_functions import UserFunction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


class Conversation:
    """Statements of one client, for use by one thread, with its own properties and variables."""

    def __init__(
        self, shared: Shared, properties: SessionProperties, variables: Mapping[str, str] | None = None
    ) -> None:
        self.shared = shared
        self.brokers = shared.brokers
        self.catalogue = shared.catalogue
        self.queries = shared.queries
        self.functions = shared.functions
        self.properties = properties
        self.schemas = Schemas(properties.registry)
        self.variables = dict(variables or {})
        self._interrupted = threading.Event()
        #: Receives a message before each slow operation.
        self.progress: Callable[[str], None] = lambda _text: None
        #: Whether queries are only prepared, and start when resumed.
        self.starts_paused = False
        self._places = shared.places
        self._planner = shared.planner
        self._pull = PullQueries(
            self.brokers,
            self._places.indexes,
            lambda: self.engine,
            lambda source: self.schemas.codecs(source),
        )

    def interrupt(self) -> None:
        """End a push query or PRINT of this session, from another thread."""
        self._interrupted.set()

    def execute(self, script: str, *, resume: bool = False) -> list[Result]:
        """Execute all statements in order. Push queries need a LIMIT here; `results` streams their rows."""
        done = []
        for result in self.results(script, resume=resume):
            if result.is_push:
                if _limit(result.statement) is None:
                    raise SqlError("This goes on for ever: give it a LIMIT.", result.statement.position)
                result.rows = list(result.rows)
            done.append(result)
        return done

    def results(self, script: str, *, resume: bool = False) -> Generator[Result, None, None]:
        """Yield the result of each statement. Consume all rows of a result before requesting the next.

        With `resume`, a script can be run again: objects created by the same statement are not an error, and queries
        that do not run here resume from their checkpoints.
        """
        for statement in self.parse(script):
            yield from self.run(statement, resume=resume)

    def parse(self, script: str) -> Iterator[s.Statement]:
        """Yield statements one by one. Run each before requesting the next, because it may define variables."""
        return statements(script, self.variables, self.catalogue.find_type)

    def run(self, statement: s.Statement, *, resume: bool = False) -> Iterator[Result]:
        """Run one statement. Only RUN SCRIPT has several results."""
        with spark_errors_at(statement):
            yield from self._execute(statement, resume)

    @property
    def engine(self) -> Engine:
        return self.shared.engine(self.schemas)

    # Statements

    def _execute(self, statement: s.Statement, resume: bool) -> Iterator[Result]:
        if isinstance(statement, s.RunScript):
            yield from self._run_script(statement)
            return
        if isinstance(statement, _NEEDS_CATALOGUE):
            self.catalogue.refresh()
        yield self._result(statement, resume)

    def _result(self, statement: s.Statement, resume: bool) -> Result:
        match statement:
            case s.CreateSource():
                return self._create(statement, resume)
            case s.CreateAsSelect():
                return self._create_as_select(statement, resume)
            case s.InsertSelect():
                return self._insert_select(statement)
            case s.InsertValues():
                return self._insert_values(statement)
            case s.Query():
                return self._query(statement)
            case s.Show():
                if statement.what == "FUNCTIONS":
                    return show_functions(statement, self.functions)
                return show(
                    statement, self.catalogue, self.brokers, self.queries, self.properties, self.variables
                )
            case s.DescribeFunction():
                return describe_function(statement, self.functions)
            case s.Describe():
                return describe(statement, self.catalogue, self.brokers, self.queries)
            case s.Explain():
                return self._explain(statement)
            case s.Print():
                return printed(statement, self.brokers, self._interrupted, self.schemas)
            case s.Terminate():
                return terminate(statement, self.queries, self.catalogue)
            case s.Drop():
                return self._drop(statement)
            case s.Alter():
                return alter(statement, self.catalogue, self.schemas)
            case s.CreateType():
                return create_type(statement, self.catalogue)
            case s.DropType():
                return drop_type(statement, self.catalogue)
            case s.AssertTopic():
                return assert_topic(statement, self.brokers)
            case s.AssertSchema():
                return assert_schema(statement, self.schemas)
            case s.Pause() | s.Resume():
                return pause_or_resume(statement, self.queries)
            case s.SetProperty(name=name, value=value):
                self.properties.set(name, value, statement.position)
                return Result(statement, f"Set {name} to {value}.")
            case s.UnsetProperty(name=name):
                self.properties.unset(name, statement.position)
                return Result(statement, f"{name} is at its default.")
            case s.Define(name=name, value=value):
                self.variables[name] = value
                return Result(statement, f"Defined {name}.")
            case s.Undefine(name=name):
                if self.variables.pop(name, None) is None:
                    raise SqlError(f"There is no variable {name}.", statement.position)
                return Result(statement, f"{name} is no longer defined.")
        raise AssertionError(statement)

    def _run_script(self, statement: s.RunScript) -> Iterator[Result]:
        try:
            script = Path(statement.path).expanduser().read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            message = f"The script {statement.path} cannot be read: {reason}."
            raise SqlError(message, statement.position) from None
        try:
            yield from self.results(script, resume=True)
        except SqlError as error:
            raise SqlError(f"In {statement.path}, {error}") from error

    def _existing(self, statement: s.Create) -> Source | None:
        """Return the existing source of this name. Raises SqlError if it is of another kind."""
        there = self.catalogue.get(statement.name)
        if there is not None and there.kind != statement.kind:
            raise SqlError(f"{statement.name} is a {there.kind.lower()} already.", statement.position)
        return there

    def _create(self, statement: s.CreateSource, resume: bool) -> Result:
        there = self._existing(statement)
        if statement.or_replace and (statement.is_read_only or (there is not None and there.is_read_only)):
            raise SqlError(
                f"Cannot add {statement.kind.lower()} '{statement.name}': CREATE OR REPLACE is not supported on source "
                f"{statement.kind.lower()}s.",
                statement.position,
            )
        if there is not None and not statement.or_replace:
            if statement.if_not_exists or (resume and same_statement(there.statement, statement.text)):
                return Result(statement, f"{statement.kind.capitalize()} {statement.name} exists already.")
            raise _exists(statement, resume)
        completed, known = self.schemas.completed(statement)
        source, wanted = from_statement(completed, known, wraps=self._wraps())
        if there is not None:
            check_replacement(there, source, statement)
        self._ensure_topic(source, wanted, statement)
        self.catalogue.put(self.schemas.registered(source, statement.position, always=False))
        return Result(statement, f"Created {statement.kind.lower()} {statement.name}.")

    def _ensure_topic(self, source: Source, wanted: TopicShape, statement: s.CreateSource) -> None:
        topic = self.brokers.topic(source.topic)
        if topic is not None:
            if wanted.partitions not in (None, topic.partitions):
                raise SqlError(
                    f"The topic '{source.topic}' has {topic.partitions} partitions, not {wanted.partitions}.",
                    statement.properties["partitions"].position,
                )
            return
        if wanted.partitions is None:
            raise SqlError(
                f"The topic '{source.topic}' does not exist. WITH (…, partitions=1) creates it.",
                statement.position,
            )
        config = {"cleanup.policy": "compact"} if source.kind == "TABLE" else {}
        self.brokers.create_topic(source.topic, wanted, config)

    def _create_as_select(self, statement: s.CreateAsSelect, resume: bool) -> Result:
        there = self._existing(statement)
        query_id = None
        if there is not None and not statement.or_replace:
            same = resume and same_statement(there.statement, statement.text)
            if not same and not statement.if_not_exists:
                raise _exists(statement, resume)
            running = there.query_id is not None and self.queries.get(there.query_id)
            if not same or there.query_id is None or running:
                return Result(statement, f"{statement.kind.capitalize()} {statement.name} exists already.")
            query_id = there.query_id
        plan = self._planner.plan(statement.select)
        target = definition(
            statement,
            plan,
            self.engine.schema(plan),
            topic_prefix=self.properties.get(TOPIC_PREFIX),
            wraps=self._wraps(),
        )
        if there is not None and query_id is None:
            check_replacement(there, target, statement)
            query_id = self._continued(there, plan)
        for each in self.queries.writing_to(statement.name):
            self.queries.stop(each.query_id)
        left = plan.sources[statement.select.source.alias]
        wanted = shape(statement.properties)
        if wanted.partitions is None:
            facts = self.brokers.topic(left.topic)
            wanted = TopicShape(facts.partitions if facts else None, wanted.replicas)
        config = {}
        if target.kind == "TABLE":
            config["cleanup.policy"] = "compact,delete" if target.window else "compact"
            if plan.window is not None and plan.window.retention_ms is not None:
                config["retention.ms"] = str(plan.window.retention_ms)
        target = self.schemas.registered(target, statement.position, always=True)
        self.brokers.create_topic(target.topic, wanted, config)
        if query_id is not None and there is not None:
            # Queries that insert into the source use this number in their checkpoint names.
            target = dataclasses.replace(target, query_id=query_id, number=there.number)
        else:
            prefix = "CTAS" if statement.kind == "TABLE" else "CSAS"
            query_id = f"{prefix}_{statement.name}_{self.catalogue.next_number()}"
            target = dataclasses.replace(target, query_id=query_id)
        query = self._start(query_id, query_id, plan, target, statement)
        if target != there:
            self.catalogue.put(target)
        if there is not None and there.query_id != query_id:
            self._places.forget_queries(there)
        message = f"Created {statement.kind.lower()} {statement.name} with query {query_id}."
        return Result(statement, message, query=query)

    def _continued(self, there: Source, plan: Plan) -> str | None:
        """Return the query whose checkpoint the new one continues. Both must process one record at a time."""
        if there.query_id is None or plan.mode not in ("append", "changes"):
            return None
        [before] = self.parse(there.statement)
        if not isinstance(before, s.CreateAsSelect):
            return None
        old = self._planner.plan(before.select)
        topics = [[source.topic for source in each.sources.values()] for each in (old, plan)]
        return there.query_id if old.mode == plan.mode and topics[0] == topics[1] else None

    def _insert_select(self, statement: s.InsertSelect) -> Result:
        target = self.catalogue.find(statement.target, statement.position)
        if target.is_read_only:
            raise SqlError(f"{target.name} is read only, because CREATE SOURCE made it.", statement.position)
        plan = self._planner.plan(statement.select)
        check_target(plan, target, self.engine.schema(plan), statement.position)
        query_id = f"INSERTQUERY_{next(self.shared.insert_numbers)}"
        digest = hashlib.sha256(" ".join(statement.text.split()).encode()).hexdigest()[:12]
        checkpoint = f"INSERT_{target.name}_{target.number}_{digest}"
        query = self._start(query_id, checkpoint, plan, target, statement)
        return Result(statement, f"Started query {query_id}, which writes to {target.name}.", query=query)

    def _start(
        self, query_id: str, checkpoint: str, plan: Plan, target: Source, statement: s.Statement
    ) -> StreamingQuery | None:
        starting, place = self._starting(), self._places.checkpoint(checkpoint)
        exactly_once = self.properties.get("processing.guarantee") != "at_least_once"

        most = self.properties.get("ottla.max.offsets.per.trigger")

        def begin() -> StreamingQuery:
            engine = self.engine
            engine.max_offsets = most
            return engine.start(plan, target, query_id, place, starting, exactly_once=exactly_once)

        query = None if self.starts_paused else begin()
        running = Running(query_id, query, target.name, statement.text, plan, begin, is_paused=query is None)
        self.queries.add(running)
        return query

    def _wraps(self) -> bool | None:
        said = self.properties.get(WRAPS)
        return None if not said else said == "true"

    def _starting(self) -> str:
        return self.properties.get("auto.offset.reset")

    def _insert_values(self, statement: s.InsertValues) -> Result:
        source = self.catalogue.find(statement.target, statement.position)
        rows = records(statement, source, self.schemas.codecs(source, writing=True))
        self.brokers.produce(source.topic, rows)
        plural = "" if len(rows) == 1 else "s"
        return Result(statement, f"Inserted {len(rows)} row{plural} into {source.name}.")

    def _query(self, statement: s.Query) -> Result:
        select = statement.select
        if select.partition_by and select.emit is None:
            raise SqlError(
                "PARTITION BY sets the key of written records, so pull queries do not support it.",
                select.position,
            )
        plan = self._planner.plan(select, batch=select.emit is None, reader=True)
        columns = tuple(plan.names)
        if select.emit is None:
            found = self._pull.rows(plan, may_scan=self.properties.get(SCAN) == "true")
            return Result(statement, None, columns, found, kinds=lambda: self._types(plan))
        types = self._types(plan)  # fails early if the query cannot work
        topics = dict.fromkeys(f"'{source.topic}'" for source in plan.sources.values())
        self.progress(f"Reading {', '.join(topics)} …")
        rows = itertools.islice(self._pushed(plan, statement), select.limit)
        return Result(statement, None, columns, rows, is_push=True, kinds=lambda: types)

    def _types(self, plan: Plan) -> tuple[str, ...]:
        if plan.mode == "batch" and (known := named_types(plan)) is not None:
            return known
        return tuple(str(from_spark(each.dataType) or "STRING") for each in self.engine.schema(plan).fields)

    def _pushed(self, plan: Plan, statement: s.Statement) -> Iterator[tuple[Any, ...]]:
        with spark_errors_at(statement):
            yield from self.engine.push(plan, self._starting(), self._interrupted)

    def _explain(self, statement: s.Explain) -> Result:
        if statement.query_id is not None:
            running = self.queries.get(statement.query_id)
            if running is None:
                raise SqlError(f"This session runs no query {statement.query_id}.", statement.position)
            plan = running.plan
            target = self.catalogue.get(running.sink)
        else:
            assert statement.query is not None
            target = None
            select = statement.query.select
            batch = isinstance(statement.query, s.Query) and select.emit is None
            plan = self._planner.plan(select, batch=batch)
        because = "" if plan.own_state is None else f", because of {plan.own_state}"
        message = (
            f"{graph(plan, target)}\n\nMode: {plan.mode}{because}\n\n{plan.sql}\n\n"
            f"{self.engine.explain(plan).strip()}"
        )
        return Result(statement, message)

    def _drop(self, statement: s.Drop) -> Result:
        position = statement.position
        source = self.catalogue.get(statement.name)
        if source is None:
            message = f"{statement.kind.capitalize()} {statement.name} does not exist."
            if statement.if_exists:
                return Result(statement, message)
            raise SqlError(message, position)
        if source.kind != statement.kind:
            raise SqlError(f"{source.name} is a {source.kind.lower()}: DROP {source.kind}.", position)
        if statement.delete_topic and source.is_read_only:
            raise SqlError(f"{source.name} is read only: its topic cannot be deleted with it.", position)
        readers = [each.query_id for each in self.queries.reading_from(source.name)]
        if readers:
            raise SqlError(f"{source.name} is read by {', '.join(readers)}: TERMINATE first.", position)
        for each in self.queries.writing_to(source.name):
            self.queries.stop(each.query_id)
        self.catalogue.remove(source.name)
        self._places.forget_queries(source)
        self._pull.forget(source)
        if statement.delete_topic:
            self.brokers.delete_topic(source.topic)
            self.schemas.dropped(source)
        also = f" and topic '{source.topic}'" if statement.delete_topic else ""
        return Result(statement, f"Dropped {source.kind.lower()} {source.name}{also}.")


class SqlSession(Conversation):
    """The first conversation, which begins and ends everything that others share.

    `spark` is a session, or a function that creates one on demand. `checkpoints` is the directory for query
    checkpoints. By default it comes from Spark's setting spark.ottla.checkpoints, or is a directory of the user.
    `functions` are files or modules that declare functions with @udf, @udaf and @udtf. `schema_registry` is a URL, or
    properties such as schema.registry.url and schema.registry.basic.auth.user.info. It defaults to Spark's settings
    spark.ottla.schema.registry.….
    """

    def __init__(
        self,
        spark: SparkSession | Callable[[], SparkSession],
        *,
        bootstrap_servers: str | None = None,
        checkpoints: str | None = None,
        properties: Mapping[str, str] | None = None,
        functions: Sequence[str | Path | ModuleType | UserFunction] = (),
        schema_registry: str | Mapping[str, str] | None = None,
    ) -> None:
        shared = Shared(
            spark,
            bootstrap_servers=bootstrap_servers,
            checkpoints=checkpoints,
            properties=properties,
            functions=functions,
            schema_registry=schema_registry,
        )
        super().__init__(shared, SessionProperties(shared.registry))

    def conversation(self, variables: Mapping[str, str] | None = None) -> Conversation:
        """Begin a conversation for another thread, with the defaults of this session."""
        shared = self.shared
        properties = SessionProperties(
            shared.registry, fixed_registry=shared.registry_is_fixed, defaults=shared.defaults
        )
        return Conversation(shared, properties, variables)

    def stop(self) -> None:
        """Stop all queries of this session. Spark keeps running."""
        with spark_errors_at():
            self.queries.stop_all()

    @property
    def uses_spark(self) -> bool:
        """Return True if a statement has needed Spark so far."""
        return self.shared.uses_spark

    def close(self) -> None:
        """Stop all queries, and Spark if this session started it."""
        self.stop()
        self.brokers.close()
        self.shared.stop_spark()


#: Statements that depend on definitions of other shells.
_NEEDS_CATALOGUE = (
    s.CreateSource | s.CreateAsSelect | s.InsertSelect | s.InsertValues | s.Query
    | s.Show | s.Describe | s.Explain | s.Drop | s.Terminate | s.Alter | s.CreateType | s.DropType
)  # fmt: skip


def run_script(
    spark: SparkSession, text: str, *, bootstrap_servers: str | None = None
) -> list[StreamingQuery]:
    """Execute a script and return the queries left running. Running the script again resumes them."""
    session = SqlSession(spark, bootstrap_servers=bootstrap_servers)
    session.execute(text, resume=True)
    return [running.query for running in session.queries.all() if running.query is not None]


def _limit(statement: s.Statement) -> int | None:
    if isinstance(statement, s.Query):
        return statement.select.limit
    return statement.limit if isinstance(statement, s.Print) else None


def _exists(statement: s.Create, resume: bool) -> SqlError:
    other = " with another definition" if resume else ""
    return SqlError(
        f"{statement.kind.capitalize()} {statement.name} exists already{other}; DROP it, or CREATE OR REPLACE.",
        statement.position,
    )
