"""The shell of `ottla sql`: history, completion, statements over several lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings

from ottla.cli import output
from ottla.cli.commands.sql.sql import print_result
from ottla.sql import SqlError
from ottla.sql.client import SqlClient
from ottla.sql.executing.places import state_directory
from ottla.sql.parsing.parser import is_complete
from ottla.sql.planning.functions import names

if TYPE_CHECKING:
    from ottla.sql import SqlSession

_LEAVE = ("\\q", "exit", "quit")

_WORDS = """
    SELECT FROM WHERE GROUP BY PARTITION HAVING EMIT CHANGES FINAL LIMIT AS AND OR NOT NULL IS IN LIKE
    BETWEEN CASE WHEN THEN ELSE END CREATE REPLACE STREAM TABLE IF EXISTS WITH KEY PRIMARY INSERT INTO
    VALUES JOIN LEFT RIGHT FULL OUTER INNER ON WITHIN GRACE PERIOD WINDOW TUMBLING HOPPING SESSION SIZE
    ADVANCE SHOW LIST STREAMS TABLES TOPICS QUERIES PROPERTIES FUNCTIONS DESCRIBE EXTENDED EXPLAIN PRINT
    BEGINNING INTERVAL TERMINATE ALL DROP DELETE TOPIC SET UNSET DEFINE UNDEFINE RUN SCRIPT BOOLEAN INTEGER
    BIGINT DOUBLE DECIMAL STRING BYTES DATE TIMESTAMP ARRAY MAP STRUCT ROWTIME ROWPARTITION ROWOFFSET
    WINDOWSTART WINDOWEND SECONDS MINUTES HOURS DAYS
"""
KEYWORDS = tuple(_WORDS.split())

_HELP = """\
Statements end with a semicolon and may take several lines. Tab completes, arrow up recalls earlier input.
  SHOW STREAMS;  SHOW TABLES;  SHOW TOPICS;  DESCRIBE name;  PRINT 'topic' FROM BEGINNING;
  CREATE STREAM name (column TYPE, …) WITH (kafka_topic='…', value_format='JSON');
  SELECT … FROM name EMIT CHANGES;     follows changes until Ctrl-C
  SELECT … FROM name;                  what there is now
  \\q leaves."""


class SqlCompleter(Completer):  # type: ignore[misc]
    """Keywords, functions, and the names of streams, tables and columns."""

    def __init__(self, session: SqlSession | SqlClient) -> None:
        self._session = session

    def words(self) -> Iterator[tuple[str, str]]:
        yield from self._sources()
        for keyword in KEYWORDS:
            yield keyword, ""
        for function in names():
            yield function, "function"

    def _sources(self) -> Iterator[tuple[str, str]]:
        session = self._session
        if isinstance(session, SqlClient):
            yield from session.words()
            return
        for source in session.catalogue.all():
            yield source.name, source.kind.lower()
            for column in source.columns:
                yield column.name, f"column of {source.name}"
        for function in session.functions.all():
            yield function.name, "function"

    def get_completions(self, document: Document, _event: CompleteEvent) -> Iterable[Any]:
        begun = document.get_word_before_cursor(WORD=False)
        if not begun or not (begun[0].isalpha() or begun[0] == "_"):
            return
        given: set[str] = set()
        for word, kind in self.words():
            if word.upper().startswith(begun.upper()) and word not in given:
                given.add(word)
                # As it was begun: small letters stay small.
                completed = word.lower() if begun.islower() and word == word.upper() else word
                yield Completion(completed, start_position=-len(begun), display_meta=kind)


class Shell:
    def __init__(self, session: SqlSession | SqlClient, as_json: bool) -> None:
        self._session = session
        self._as_json = as_json

    def run(self) -> None:
        session = self._session
        place = session.url if isinstance(session, SqlClient) else session.brokers.bootstrap_servers
        output.note(f"SQL over {place}. `help` helps, \\q leaves.")
        try:
            if isinstance(session, SqlClient):
                session.refresh()
            else:
                session.catalogue.refresh()
        except SqlError as error:
            output.fail(str(error))
        prompt = self._prompt()
        while True:
            try:
                text = prompt.prompt("sql> ").strip()
            except KeyboardInterrupt:
                continue  # discard the input
            except EOFError:
                return
            if text.rstrip(";").lower() in _LEAVE:
                return
            if text.rstrip(";").lower() in ("help", "?"):
                click.echo(_HELP)
            elif text:
                self.carry_out(text)

    def carry_out(self, text: str) -> None:
        try:
            with closing(self._session.results(text)) as results:
                for result in results:
                    print_result(result, self._as_json)
        except KeyboardInterrupt:
            click.echo()
        except SqlError as error:
            output.fail(error.pointed(text))

    def _prompt(self) -> Any:
        history = state_directory() / "sql" / "history"
        history.parent.mkdir(parents=True, exist_ok=True)
        keys = KeyBindings()
        prompt: Any = PromptSession(
            history=FileHistory(str(history)),
            completer=SqlCompleter(self._session),
            complete_while_typing=False,
            multiline=True,
            key_bindings=keys,
            prompt_continuation=lambda width, _line, _wrapped: "...> ".rjust(width),
        )

        def done() -> bool:
            text = prompt.default_buffer.text.strip()
            return text.lower() in (*_LEAVE, "help", "?") or is_complete(text)

        @keys.add("enter", filter=Condition(done))  # type: ignore[untyped-decorator]
        def accept(event: Any) -> None:
            event.current_buffer.validate_and_handle()

        return prompt
