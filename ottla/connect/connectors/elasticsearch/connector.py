"""The sink `io.confluent.connect.elasticsearch.ElasticsearchSinkConnector`, which uses the `_bulk` API.

The sink works with OpenSearch as well. Delivery is exactly once: the document id is either the key, with the offset as
external version, or topic, partition and offset. A repeated record yields the same document, or an older version that
the index ignores.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from ottla.connect.api import Config, SinkConnector, SinkTask, SinkTaskContext
from ottla.connect.config.config_def import (
    ConfigDef,
    ConfigType,
    Importance,
    at_least,
    between,
    not_empty,
    one_of,
)
from ottla.connect.connectors.elasticsearch.documents import document, document_id, index_name, mapping
from ottla.connect.connectors.http.client import Access, HttpClient, Refused, check_url
from ottla.connect.data.record import SinkRecord
from ottla.connect.data.schema import SchemaType
from ottla.connect.errors import ConnectError, DataError, RetriableError

log = logging.getLogger(__name__)

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_STRING, _INT, _BOOLEAN = ConfigType.STRING, ConfigType.INT, ConfigType.BOOLEAN
_IGNORE_FAIL = one_of("ignore", "fail", "delete", "IGNORE", "FAIL", "DELETE")
_MALFORMED = one_of("ignore", "warn", "fail", "IGNORE", "WARN", "FAIL")
_JSON = {"Content-Type": "application/json"}
_LINES = {"Content-Type": "application/x-ndjson"}
_CONFLICT = 409


class ElasticsearchSinkConnector(SinkConnector):
    config_def = (
        ConfigDef()
        .define(
            "connection.url",
            ConfigType.LIST,
            importance=_HIGH,
            documentation="Addresses of the nodes.",
            validator=not_empty,
        )
        .define("connection.username", _STRING, "", _MEDIUM, "User name.")
        .define("connection.password", ConfigType.PASSWORD, "", _MEDIUM, "Password.")
        .define("connection.timeout.ms", _INT, 1000, _LOW, "No effect; use read.timeout.ms.")
        .define("read.timeout.ms", _INT, 30000, _LOW, "Time to wait for a response.", validator=at_least(1))
        .define(
            "elastic.security.protocol", _STRING, "PLAINTEXT", _MEDIUM, ("No effect; https:// turns on TLS.")
        )
        .define(
            "batch.size",
            _INT,
            2000,
            _MEDIUM,
            "Maximum records per request.",
            validator=between(1, 1_000_000),
        )
        .define(
            "bulk.size.bytes",
            ConfigType.LONG,
            5 << 20,
            _LOW,
            ("Maximum bytes per request; -1 means no limit."),
        )
        .define("linger.ms", ConfigType.LONG, 1, _LOW, "No effect; records are sent as they arrive.")
        .define(
            "max.in.flight.requests", _INT, 5, _MEDIUM, ("No effect; requests are sent one after another.")
        )
        .define("flush.timeout.ms", ConfigType.LONG, 180000, _LOW, ("No effect; put waits for the response."))
        .define("max.retries", _INT, 5, _LOW, "Number of retries of a request.", validator=at_least(0))
        .define(
            "retry.backoff.ms",
            ConfigType.LONG,
            100,
            _LOW,
            "Time before the first retry; doubled for each further retry.",
            validator=at_least(0),
        )
        .define(
            "key.ignore",
            _BOOLEAN,
            False,
            _HIGH,
            "Use topic+partition+offset as the document id instead of the key.",
        )
        .define("topic.key.ignore", ConfigType.LIST, [], _LOW, "Topics for which key.ignore is true.")
        .define("schema.ignore", _BOOLEAN, False, _LOW, "Let the index infer the types.")
        .define("topic.schema.ignore", ConfigType.LIST, [], _LOW, "Topics for which schema.ignore is true.")
        .define(
            "compact.map.entries",
            _BOOLEAN,
            True,
            _LOW,
            "Write maps as objects instead of lists of key and value.",
        )
        .define(
            "write.method",
            _STRING,
            "INSERT",
            _LOW,
            "INSERT, or UPSERT to change only the fields in the record.",
            validator=one_of("INSERT", "UPSERT", "insert", "upsert"),
        )
        .define(
            "behavior.on.null.values",
            _STRING,
            "fail",
            _LOW,
            "Treatment of records without a value.",
            validator=_IGNORE_FAIL,
        )
        .define(
            "behavior.on.malformed.documents",
            _STRING,
            "fail",
            _LOW,
            "Treatment of documents that the index refuses.",
            validator=_MALFORMED,
        )
        .define(
            "drop.invalid.message",
            _BOOLEAN,
            False,
            _LOW,
            "Skip records that are not documents.",
        )
        .define(
            "external.version.header",
            _STRING,
            "",
            _LOW,
            "Header with the document version. [default: the offset]",
        )
        .define(
            "topic.to.external.resource.mapping",
            ConfigType.LIST,
            [],
            _LOW,
            "Index of each topic, as topic:index.",
        )
    )
    summary = "Elasticsearch and OpenSearch indices"
    delivery = (
        "exactly once by the id of documents, with the offset as external version; at least once with UPSERT"
    )

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        parsed = self.config_def.parse(config)
        for url in parsed["connection.url"]:
            try:
                check_url("connection.url", _with_scheme(url))
            except ConnectError as error:
                return {"connection.url": [error.message]}
        if bool(parsed["connection.username"]) != bool(parsed["connection.password"]):
            both = "Both connection.username and connection.password must be set, or neither."
            return {"connection.username": [both]}
        if parsed["write.method"].upper() == "UPSERT" and parsed["key.ignore"]:
            return {"write.method": ["UPSERT needs the key as id: set key.ignore to false."]}
        return {}

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config) for _ in range(max_tasks)]


def _with_scheme(url: str) -> str:
    return url if "://" in url else f"http://{url}"


class _Action(NamedTuple):
    record: SinkRecord
    lines: bytes


class ElasticsearchSinkTask(SinkTask):
    def start(self, config: Config, context: SinkTaskContext) -> None:
        self._client: HttpClient | None = None
        self._settings = settings = ElasticsearchSinkConnector.config_def.parse(config)
        self._context = context
        self._urls = [_with_scheme(each).rstrip("/") for each in settings["connection.url"]]
        self._indices: set[str] = set()
        self._named = dict(
            each.split(":", 1) for each in settings["topic.to.external.resource.mapping"] if ":" in each
        )
        user = settings["connection.username"]
        access = Access(
            basic=(user, settings["connection.password"]) if user else None,
            timeout=settings["read.timeout.ms"] / 1000,
            retries=settings["max.retries"],
            backoff=settings["retry.backoff.ms"] / 1000,
        )
        self._client = HttpClient(access)
        self._send("GET", "/")

    def stop(self) -> None:
        client = getattr(self, "_client", None)
        if client is not None:
            client.close()

    def put(self, records: Sequence[SinkRecord]) -> None:
        batch: list[_Action] = []
        size, most = 0, self._settings["bulk.size.bytes"]
        for record in records:
            action = self._action(record)
            if action is None:
                continue
            if batch and (len(batch) >= self._settings["batch.size"] or 0 < most < size + len(action.lines)):
                self._bulk(batch)
                batch, size = [], 0
            batch.append(action)
            size += len(action.lines)
        if batch:
            self._bulk(batch)

    def _send(
        self, method: str, path: str, content: bytes | None = None, headers: Mapping[str, str] = _JSON
    ) -> Any:
        """Send to the first node that answers."""
        assert self._client is not None
        for number, url in enumerate(self._urls):
            try:
                response = self._client.send(method, f"{url}{path}", content=content, extra_headers=headers)
            except ConnectError as error:
                if (
                    isinstance(error, Refused)
                    or number + 1 == len(self._urls)
                    or "Cannot reach" not in error.message
                ):
                    raise
            else:
                # Send the next request to the node that answered.
                self._urls = [*self._urls[number:], *self._urls[:number]]
                return response.json() if method != "HEAD" and response.content else None
        return None

    def _action(self, record: SinkRecord) -> _Action | None:
        settings = self._settings
        nothing = settings["behavior.on.null.values"].lower()
        if record.value is None and nothing == "ignore":
            return None
        try:
            if record.value is None and nothing == "fail":
                raise DataError("The record has no value. Set behavior.on.null.values to ignore or delete.")
            index = self._index(record)
            ignored = settings["key.ignore"] or record.topic in settings["topic.key.ignore"]
            if record.value is None and ignored:
                # No document has this id.
                return None
            return _Action(record, self._lines(record, index, document_id(record, ignored), ignored))
        except DataError as error:
            if settings["drop.invalid.message"]:
                log.warning("%s-%s@%s: %s", record.topic, record.partition, record.offset, error.message)
            else:
                self._context.report(record, error)
            return None

    def _lines(self, record: SinkRecord, index: str, id: str, key_ignored: bool) -> bytes:
        about: dict[str, Any] = {"_index": index, "_id": id}
        upsert = self._settings["write.method"].upper() == "UPSERT"
        if not key_ignored and not upsert:
            about |= {"version": self._version(record), "version_type": "external"}
        if record.value is None:
            return _line({"delete": about})
        content = document(record.value, self._settings["compact.map.entries"])
        if upsert:
            return _line({"update": about}) + _line({"doc": content, "doc_as_upsert": True})
        return _line({"index": about}) + _line(content)

    def _version(self, record: SinkRecord) -> int:
        name = self._settings["external.version.header"]
        if not name:
            return record.offset
        value = next((header.value for header in record.headers if header.key == name), None)
        try:
            return int(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise DataError(f"The header {name!r} has no number, which would be the version.") from None

    def _index(self, record: SinkRecord) -> str:
        name = self._named.get(record.topic) or index_name(record.topic)
        if name not in self._indices:
            self._create(name, record)
            self._indices.add(name)
        return name

    def _create(self, name: str, record: SinkRecord) -> None:
        path = f"/{quote(name, safe='')}"
        try:
            self._send("HEAD", path)
            return
        except Refused:
            pass
        body: dict[str, Any] = {}
        schema = record.value_schema
        ignored = self._settings["schema.ignore"] or record.topic in self._settings["topic.schema.ignore"]
        if not ignored and schema is not None and schema.type is SchemaType.STRUCT:
            body = {"mappings": mapping(schema)}
        try:
            self._send("PUT", path, json.dumps(body).encode())
        except Refused as error:
            if "resource_already_exists" not in error.message:
                raise ConnectError(f"The index {name!r} cannot be created: {error.message}") from None

    def _bulk(self, actions: Sequence[_Action]) -> None:
        attempt = 0
        while actions:
            answer = self._send("POST", "/_bulk", b"".join(action.lines for action in actions), _LINES)
            again = []
            for action, item in zip(actions, answer["items"], strict=True):
                [result] = item.values()
                if result["status"] == 429 or result["status"] >= 500:
                    again.append(action)
                elif "error" in result and result["status"] != _CONFLICT:
                    self._refused(action.record, result)
            if again and attempt >= self._settings["max.retries"]:
                raise RetriableError(f"{self._urls[0]} is too busy to store {len(again)} documents.")
            if again:
                time.sleep(min(self._settings["retry.backoff.ms"] / 1000 * 2**attempt, 60))
            actions, attempt = again, attempt + 1

    def _refused(self, record: SinkRecord, result: Mapping[str, Any]) -> None:
        error = result["error"]
        why = error.get("reason", error) if isinstance(error, Mapping) else error
        sentence = DataError(
            f"The index {result.get('_index')!r} refuses the document {result.get('_id')!r}: {why}."
        )
        behavior = self._settings["behavior.on.malformed.documents"].lower()
        if behavior == "fail":
            self._context.report(record, sentence)
        elif behavior == "warn":
            log.warning("%s", sentence.message)


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


ElasticsearchSinkConnector.task_class = ElasticsearchSinkTask
