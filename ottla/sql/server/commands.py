"""Execution of /ksql statements, one at a time: one lock guards all changes to streams, tables and queries.

Invariant: the query log contains every query that this server has started and not yet ended.
Owner: threads of the server's pool; changes require `lock`.
"""

from __future__ import annotations

import dataclasses
import logging
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ottla.http import HttpError
from ottla.sql.errors import TOO_DEEP, Position, SqlError
from ottla.sql.executing.results import Result
from ottla.sql.parsing import statements as s
from ottla.sql.properties import KNOWN
from ottla.sql.server import entities
from ottla.sql.server.ksql_errors import (
    COMMAND_QUEUE_TIMEOUT,
    NOT_READY,
    QUERY_ENDPOINT,
    StatementError,
    bad_request,
)
from ottla.sql.server.ksql_requests import KsqlRequest
from ottla.sql.server.push_queries import PushQueries
from ottla.sql.server.query_log import LoggedQuery, QueryLog
from ottla.sql.server.values import plain
from ottla.sql.session import Conversation, SqlSession

logger = logging.getLogger("ottla.sql")

_PREFIX = "ksql.streams."
_SEQUENCE_SECONDS = 5.0
_START = Position(1, 1)
#: Statements without visible side effects on definitions and queries. They do not wait for the lock.
_LOOKS = (
    s.Show, s.Describe, s.DescribeFunction, s.Explain, s.InsertValues, s.SetProperty, s.UnsetProperty, s.Define,
    s.Undefine, s.AssertTopic, s.AssertSchema,
)  # fmt: skip
_USE_QUERY = "The following statement types should be issued to the websocket endpoint '/query':\n\t* PRINT\n\t* SELECT"


@dataclass(frozen=True)
class CommandStatus:
    status: str
    message: str
    query_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"status": self.status, "message": self.message, "queryId": self.query_id}


class _InsertNumbers(Iterator[int]):
    """Yields the number of the next INSERT INTO … SELECT."""

    def __init__(self) -> None:
        self.wanted = 1

    def __next__(self) -> int:
        return self.wanted


class Commands:
    def __init__(self, session: SqlSession, log: QueryLog, pushes: PushQueries) -> None:
        self.session = session
        self.lock = threading.RLock()
        self.statuses: dict[str, CommandStatus] = {}
        self.not_started: dict[str, str] = {}  # reason by key in the log
        self._log = log
        self._pushes = pushes
        self._numbers = _InsertNumbers()
        session.shared.insert_numbers = self._numbers
        self._executed = -1
        self._done = threading.Condition()
        self.is_ready = False
        self.accepts = True

    # -- requests --

    def execute(self, request: KsqlRequest) -> list[entities.Entity]:
        """Raises HttpError."""
        self._await_number(request.command_sequence_number)
        conversation, warnings = self.conversation(request)
        answered: list[entities.Entity] = []
        text = ""
        found = conversation.parse(request.text)
        while True:
            try:
                text = request.text
                statement = next(found, None)
                if statement is None:
                    return answered
                text = f"{statement.text};"
                answer = self._answer(statement, conversation, request)
            except SqlError as error:
                raise StatementError(str(error), text, answered) from None
            except RecursionError:
                raise StatementError(TOO_DEEP, text, answered) from None
            except StatementError as error:
                raise StatementError(error.message, text, answered, error.error_code) from None
            if answer is not None:
                answered.append({**answer, "statementText": text, "warnings": warnings})

    def conversation(self, request: KsqlRequest) -> tuple[Conversation, list[entities.Entity]]:
        """Return a session with the request's properties and variables, and warnings about unknown properties."""
        made = self.session.conversation(request.variables)
        warnings = []
        for name, value in request.properties.items():
            if name.removeprefix(_PREFIX) not in KNOWN:
                warnings.append({"message": f"The property '{name}' has no meaning here and was ignored."})
                continue
            try:
                made.properties.set(name, value, _START)
            except SqlError as error:
                raise bad_request(error.message) from None
        return made, warnings

    def _await_number(self, number: int | None) -> None:
        if number is None or number < 0:
            return
        with self._done:
            if not self._done.wait_for(lambda: self._executed >= number, _SEQUENCE_SECONDS):
                raise HttpError(
                    503,
                    COMMAND_QUEUE_TIMEOUT,
                    f"Timed out while waiting for a previous command to execute. command sequence number: {number}",
                )

    def _answer(
        self, statement: s.Statement, conversation: Conversation, request: KsqlRequest
    ) -> entities.Entity | None:
        if isinstance(statement, s.Query | s.Print):
            raise StatementError(_USE_QUERY, "", code=QUERY_ENDPOINT)
        if isinstance(statement, s.RunScript):
            raise SqlError("RUN SCRIPT reads a file of the client: use it in the shell.", statement.position)
        if isinstance(statement, _LOOKS):
            [result] = conversation.run(statement)
            answer = entities.entity(result, conversation, self._listed())
        else:
            result, answer = self._command(statement, conversation, request)
        if request.shown:
            rows = [[plain(value) for value in row] for row in result.rows]
            if isinstance(statement, s.Show) and statement.what == "QUERIES":
                rows += [[each["id"], each["state"], "", each["queryString"]] for each in self._listed()]
            answer = answer or {"@type": "ottla_result"}
            answer["ottla"] = {"message": result.message, "columns": list(result.columns), "rows": rows}
        return answer

    def _listed(self) -> list[entities.Entity]:
        failed = [
            {
                "queryString": each.statement,
                "sinks": [each.key],
                "sinkKafkaTopics": [],
                "id": each.query_id or each.key,
                "statusCount": {"ERROR": 1},
                "queryType": "PERSISTENT",
                "state": "ERROR",
            }
            for each in self._log.all()
            if each.key in self.not_started
        ]
        return failed + self._pushes.listed()

    # -- commands --

    def _command(
        self, statement: s.Statement, conversation: Conversation, request: KsqlRequest
    ) -> tuple[Result, entities.Entity]:
        if not self.accepts:
            raise HttpError(503, NOT_READY, "The server is about to end and takes no statements.")
        with self.lock:
            if isinstance(statement, s.Terminate) and self._ended_without_spark(statement.query_id):
                result = Result(statement, f"Terminated {statement.query_id}.")
            elif isinstance(statement, s.CreateAsSelect | s.InsertSelect):
                result = self._start(statement, conversation, request)
            else:
                [result] = conversation.run(statement, resume=request.resume)
            if isinstance(statement, s.Drop):
                self._give_up(lambda each: each.key == statement.name)
            self._forget_ended()
            command_id, status = _status(result, conversation)
            self.statuses[command_id] = status
            with self._done:
                self._executed += 1
                number = self._executed
                self._done.notify_all()
        return result, {
            "@type": "currentStatus",
            "commandId": command_id,
            "commandStatus": status.to_json(),
            "commandSequenceNumber": number,
        }

    def _start(
        self, statement: s.CreateAsSelect | s.InsertSelect, conversation: Conversation, request: KsqlRequest
    ) -> Result:
        """Write the query log first: after a crash, the server starts the query when it restarts."""
        number = self._log.next_number()
        self._numbers.wanted = number
        key = statement.name if isinstance(statement, s.CreateAsSelect) else f"INSERTQUERY_{number}"
        before = self._log.get(key)
        logged = LoggedQuery(key, statement.text, _set_properties(conversation), number)
        self._log.put(logged)
        started: set[str] = {each.query_id for each in self.session.queries.all()}
        try:
            [result] = conversation.run(statement, resume=request.resume)
        except BaseException:
            self._restore(key, before)
            raise
        new = [each.query_id for each in self.session.queries.all() if each.query_id not in started]
        if new or result.query is not None:
            query_id = new[0] if new else key
            self._log.put(dataclasses.replace(logged, query_id=query_id))
        else:  # it already exists
            self._restore(key, before)
        return result

    def _restore(self, key: str, before: LoggedQuery | None) -> None:
        if before is None:
            self._log.remove(key)
        else:
            self._log.put(before)

    def _ended_without_spark(self, query_id: str | None) -> bool:
        """Close a push query, or give up a query that failed to restart. TERMINATE ALL gives up all failed restarts."""
        if query_id is None:
            self._give_up(lambda each: True)
            return False
        return self._pushes.close(query_id) or self._give_up(lambda each: each.query_id == query_id)

    def _give_up(self, chosen: Callable[[LoggedQuery], bool]) -> bool:
        """Remove the chosen queries that failed to restart from the log."""
        found = [each.key for each in self._log.all() if each.key in self.not_started and chosen(each)]
        for key in found:
            self._log.remove(key)
            del self.not_started[key]
        return bool(found)

    def _forget_ended(self) -> None:
        """Remove ended queries from the log after TERMINATE, DROP and CREATE OR REPLACE, and record pauses."""
        for logged in self._log.all():
            if logged.query_id is None or logged.key in self.not_started:
                continue
            running = self.session.queries.get(logged.query_id)
            if running is None:
                self._log.remove(logged.key)
            elif running.is_paused != logged.paused:
                self._log.put(dataclasses.replace(logged, paused=running.is_paused))

    # -- after a restart --

    def recover(self) -> None:
        """Restart the queries in the log from their checkpoints. Queries that fail to start are retried later."""
        with self.lock:
            for logged in self._log.load():
                self._recover(logged)
            self.is_ready = True

    def _recover(self, logged: LoggedQuery) -> None:
        conversation = self.session.conversation()
        conversation.starts_paused = logged.paused
        self._numbers.wanted = logged.number
        started = {each.query_id for each in self.session.queries.all()}
        try:
            for name, value in logged.properties.items():
                conversation.properties.set(name, value, _START)
            [statement] = conversation.parse(logged.statement)
            list(conversation.run(statement, resume=True))
        except Exception as error:
            reason = str(error)
            if self.not_started.get(logged.key) != reason:
                logger.error(
                    "The query %s cannot be started again: %s", logged.query_id or logged.key, reason
                )
            self.not_started[logged.key] = reason
            return
        self.not_started.pop(logged.key, None)
        new = [each.query_id for each in self.session.queries.all() if each.query_id not in started]
        if new and logged.query_id != new[0]:
            self._log.put(dataclasses.replace(logged, query_id=new[0]))
        logger.info("The query %s goes on from its checkpoint.", new[0] if new else logged.query_id)

    def retry_not_started(self) -> None:
        with self.lock:
            for logged in self._log.all():
                if logged.key in self.not_started:
                    self._recover(logged)

    def terminate_all(self, topics_to_delete: list[str]) -> None:
        """Stop all queries and delete the chosen topics, for POST /ksql/terminate."""
        with self.lock:
            self.accepts = False
            self.session.catalogue.refresh()
            self.session.queries.stop_all()
            for logged in self._log.all():
                self._log.remove(logged.key)
            made = [each for each in self.session.catalogue.all() if each.query_id is not None]
            for source in made:
                if any(re.fullmatch(pattern, source.topic) for pattern in topics_to_delete):
                    self.session.brokers.delete_topic(source.topic)
                    self.session.catalogue.remove(source.name)


def _set_properties(conversation: Conversation) -> dict[str, str]:
    return {name: value for name, default, value in conversation.properties.rows() if value != default}


def _status(result: Result, session: Conversation) -> tuple[str, CommandStatus]:
    message = result.message or ""
    match result.statement:
        case s.CreateSource(kind=kind, name=name):
            made = message if message.endswith("exists already.") else f"{kind.capitalize()} created"
            return f"{kind.lower()}/`{name}`/create", CommandStatus("SUCCESS", made)
        case s.CreateAsSelect(kind=kind, name=name):
            command_id = f"{kind.lower()}/`{name}`/create"
            source = session.catalogue.get(name)
            if result.query is None or source is None:
                return command_id, CommandStatus("SUCCESS", message)
            said = f"Created query with ID {source.query_id}"
            return command_id, CommandStatus("SUCCESS", said, source.query_id)
        case s.InsertSelect():
            query_id = next(word.rstrip(",") for word in message.split() if word.startswith("INSERTQUERY_"))
            status = CommandStatus("SUCCESS", f"Created query with ID {query_id}", query_id)
            return f"stream/`{query_id}`/create", status
        case s.Drop(kind=kind, name=name):
            dropped = message.startswith("Dropped")
            said = f"Source `{name}` was dropped." if dropped else f"Source `{name}` does not exist."
            return f"{kind.lower()}/`{name}`/drop", CommandStatus("SUCCESS", said)
        case s.Terminate(query_id=terminated):
            return f"terminate/{terminated or 'ALL'}/execute", CommandStatus("SUCCESS", "Query terminated.")
        case s.Pause(query_id=paused):
            return f"pause/{paused or 'ALL'}/execute", CommandStatus("SUCCESS", "Query paused.")
        case s.Resume(query_id=resumed):
            return f"resume/{resumed or 'ALL'}/execute", CommandStatus("SUCCESS", "Query resumed.")
        case s.CreateType(name=name):
            return f"type/`{name}`/create", CommandStatus("SUCCESS", message)
        case s.DropType(name=name):
            return f"type/`{name}`/drop", CommandStatus("SUCCESS", message)
    name = type(result.statement).__name__.lower()
    return f"{name}/{abs(hash(result.statement.text))}/execute", CommandStatus("SUCCESS", message)
