"""The source `io.confluent.connect.http.HttpSourceConnector`, which polls an API and resumes at the last offset.

A record's offset tells the connector how to request the following records. Delivery is exactly once if the API answers
the same request in the same way.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ottla.connect.api import Config, SourceConnector, SourceTask, SourceTaskContext
from ottla.connect.config.config_def import (
    ConfigDef,
    ConfigType,
    Importance,
    at_least,
    not_empty,
    one_of,
)
from ottla.connect.connectors.http.client import Access, HttpClient, check_url, header_list
from ottla.connect.connectors.http.settings import basic_login, define_login, define_retries
from ottla.connect.data.record import SourceRecord
from ottla.connect.errors import ConnectError

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_STRING, _PASSWORD = ConfigType.STRING, ConfigType.PASSWORD
_LONGEST_WAIT = 0.5
_MODES = ("SIMPLE_INCREMENTING", "CHAINING", "CURSOR_PAGINATION")


class HttpSourceConnector(SourceConnector):
    config_def = (
        ConfigDef()
        .define(
            "url",
            _STRING,
            importance=_HIGH,
            documentation="URL to request, with ${offset} and ${entityName}.",
            validator=not_empty,
        )
        .define(
            "entity.names",
            ConfigType.LIST,
            [],
            _HIGH,
            ("Values of ${entityName}, distributed over the tasks."),
        )
        .define(
            "topic.name.pattern",
            _STRING,
            importance=_HIGH,
            documentation="Topic, with ${entityName}.",
            validator=not_empty,
        )
        .define(
            "http.request.method", _STRING, "GET", _MEDIUM, "The method.", validator=one_of("GET", "POST")
        )
        .define("http.request.headers", _STRING, "", _MEDIUM, "Headers, each name:value.")
        .define(
            "http.headers.separator", _STRING, "|", _MEDIUM, "Separator between headers.", validator=not_empty
        )
        .define("http.request.parameters", _STRING, "", _MEDIUM, "Parameters as name=value, with ${offset}.")
        .define(
            "http.request.parameters.separator",
            _STRING,
            "&",
            _MEDIUM,
            "Separator between parameters.",
            validator=not_empty,
        )
        .define("http.request.body", _STRING, "", _LOW, "The body; with ${offset}.")
        .define("http.initial.offset", _STRING, "", _HIGH, "The first offset.")
        .define(
            "http.offset.mode",
            _STRING,
            "SIMPLE_INCREMENTING",
            _HIGH,
            "Paging mode.",
            validator=one_of(*_MODES),
        )
        .define(
            "http.offset.json.pointer", _STRING, "", _HIGH, ("Path of the offset in a record (CHAINING).")
        )
        .define(
            "http.next.page.json.pointer",
            _STRING,
            "",
            _MEDIUM,
            "Path of the next cursor in the response (CURSOR_PAGINATION).",
        )
        .define(
            "http.response.data.json.pointer", _STRING, "", _HIGH, ("Path of the records in the response.")
        )
        .define(
            "request.interval.ms",
            ConfigType.LONG,
            15000,
            _HIGH,
            "Time to wait after a response without records.",
            validator=at_least(1),
        )
    )
    define_login(config_def, "basic", "bearer")
    config_def.define("bearer.token", _PASSWORD, "", _MEDIUM, "The token.")
    define_retries(config_def, 10)
    summary = "records of an HTTP API, asked again and again"

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        settings = self.config_def.parse(config)
        found: dict[str, list[str]] = {}
        try:
            check_url("url", settings["url"])
        except ConnectError as error:
            found["url"] = [error.message]
        needed = {"CHAINING": "http.offset.json.pointer", "CURSOR_PAGINATION": "http.next.page.json.pointer"}
        name = needed.get(settings["http.offset.mode"])
        if name is not None and not settings[name]:
            found[name] = [f"Must be set with http.offset.mode {settings['http.offset.mode']}."]
        templates = settings["url"] + settings["http.request.parameters"] + settings["http.request.body"]
        if settings["http.offset.mode"] == "SIMPLE_INCREMENTING":
            if not (settings["http.initial.offset"] or "0").lstrip("-").isdigit():
                found["http.initial.offset"] = [
                    "Has to be a number with http.offset.mode SIMPLE_INCREMENTING."
                ]
        elif "${offset}" not in templates:
            found["url"] = ["${offset} has to be in url, http.request.parameters or http.request.body."]
        if "${entityName}" in templates and not settings["entity.names"]:
            found["entity.names"] = ["Must be set, since ${entityName} is used."]
        return found

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        names = self.config_def.parse(self.config)["entity.names"] or [""]
        count = min(max_tasks, len(names))
        return [{**self.config, "entity.names": ",".join(names[task::count])} for task in range(count)]


class HttpSourceTask(SourceTask):
    def start(self, config: Config, context: SourceTaskContext) -> None:
        self._client: HttpClient | None = None
        settings = HttpSourceConnector.config_def.parse(config)
        lines = [
            each
            for each in settings["http.request.headers"].split(settings["http.headers.separator"])
            if each.strip()
        ]
        headers = {"Accept": "application/json", **header_list("http.request.headers", lines)}
        login = settings["auth.type"].lower()
        if login == "bearer":
            headers["Authorization"] = f"Bearer {settings['bearer.token']}"
        basic = basic_login(settings)
        access = Access(
            headers, basic, retries=settings["max.retries"], backoff=settings["retry.backoff.ms"] / 1000
        )
        self._client = HttpClient(access)
        self._entities = [
            _Entity(name, settings, context.offset(_partition(settings, name)))
            for name in settings["entity.names"] or [""]
        ]

    def stop(self) -> None:
        client = getattr(self, "_client", None)
        if client is not None:
            client.close()

    def poll(self) -> Sequence[SourceRecord]:
        assert self._client is not None
        found = [record for entity in self._entities for record in entity.ask(self._client)]
        if not found:
            wait = min(entity.due for entity in self._entities) - time.monotonic()
            time.sleep(max(0.0, min(wait, _LONGEST_WAIT)))
        return found


def _partition(settings: Mapping[str, Any], entity: str) -> dict[str, str]:
    return {"url": settings["url"], "entityName": entity}


class _Entity:
    """One series of pages. `index` is the number of records from the page at `offset` that are already in the topic."""

    def __init__(self, name: str, settings: Mapping[str, Any], committed: Mapping[str, Any] | None) -> None:
        self._name, self._settings = name, settings
        self._mode: str = settings["http.offset.mode"]
        initial = settings["http.initial.offset"]
        self._offset: str = committed["offset"] if committed else initial
        self._index: int = committed.get("index", 0) if committed else 0
        if not self._offset and self._mode == "SIMPLE_INCREMENTING":
            self._offset = "0"
        self.due = time.monotonic()

    def ask(self, client: HttpClient) -> list[SourceRecord]:
        if time.monotonic() < self.due:
            return []
        answer = self._answer(client)
        data = _at(answer, self._settings["http.response.data.json.pointer"])
        values = data if isinstance(data, list) else [] if data is None else [data]
        records = [self._record(value, number) for number, value in enumerate(values)][self._index :]
        self._go_on(answer, values, records)
        if not records:
            self.due = time.monotonic() + self._settings["request.interval.ms"] / 1000
        return records

    def _answer(self, client: HttpClient) -> Any:
        settings = self._settings
        pairs = [
            each.partition("=")
            for each in settings["http.request.parameters"].split(
                settings["http.request.parameters.separator"]
            )
            if each
        ]
        body = self._filled(settings["http.request.body"])
        response = client.send(
            settings["http.request.method"],
            self._filled(settings["url"], escaped=True),
            content=body.encode() if body else None,
            **({"params": {name: self._filled(value) for name, _, value in pairs}} if pairs else {}),
        )
        if not response.content:
            return None
        try:
            return json.loads(response.content)
        except ValueError:
            raise ConnectError(
                f"{response.request.url} does not answer with JSON, but {response.text[:60]!r}."
            ) from None

    def _filled(self, template: str, escaped: bool = False) -> str:
        for name, value in (("${offset}", self._offset), ("${entityName}", self._name)):
            template = template.replace(name, quote(value, safe="") if escaped else value)
        return template

    def _record(self, value: Any, number: int) -> SourceRecord:
        """`number` is the index of the record on the page."""
        offset: dict[str, Any]
        if self._mode == "SIMPLE_INCREMENTING":
            offset = {"offset": str(int(self._offset) + number + 1)}
        elif self._mode == "CHAINING":
            offset = {"offset": _text(_at(value, self._settings["http.offset.json.pointer"]), self._settings)}
        else:
            offset = {"offset": self._offset, "index": number + 1}
        return SourceRecord(
            self._settings["topic.name.pattern"].replace("${entityName}", self._name),
            value,
            source_partition=_partition(self._settings, self._name),
            source_offset=offset,
        )

    def _go_on(self, answer: Any, values: Sequence[Any], records: Sequence[SourceRecord]) -> None:
        if self._mode == "CURSOR_PAGINATION":
            following = _at(answer, self._settings["http.next.page.json.pointer"])
            if following in (None, "", self._offset):
                # The last page for now. Records may still be added to it.
                self._index = len(values)
            else:
                self._offset, self._index = str(following), 0
                if records:
                    # A task that resumes after the last record of this page starts with the next page.
                    records[-1].source_offset = {"offset": self._offset, "index": 0}
        elif records:
            self._offset = str(records[-1].source_offset["offset"])


def _at(value: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer (RFC 6901), or None."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _text(offset: Any, settings: Mapping[str, Any]) -> str:
    if offset is None or isinstance(offset, dict | list):
        raise ConnectError(
            f"A record has no offset at {settings['http.offset.json.pointer']!r}: correct http.offset.json.pointer."
        )
    return str(offset)


HttpSourceConnector.task_class = HttpSourceTask
