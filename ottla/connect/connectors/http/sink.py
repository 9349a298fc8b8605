"""The sinks `io.aiven.kafka.connect.http.HttpSinkConnector` and `io.confluent.connect.http.HttpSinkConnector`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from ottla.connect.api import Config, SinkConnector, SinkTask, SinkTaskContext
from ottla.connect.config.config_def import (
    ConfigDef,
    ConfigType,
    Importance,
    at_least,
    not_empty,
    one_of,
)
from ottla.connect.connectors.http.client import (
    Access,
    HttpClient,
    Refused,
    check_url,
    header_list,
    statuses,
)
from ottla.connect.connectors.http.settings import (
    AIVEN_OAUTH2,
    CONFLUENT_OAUTH2,
    basic_login,
    define_batches,
    define_login,
    define_retries,
)
from ottla.connect.connectors.values.plain import to_json
from ottla.connect.data.record import SinkRecord
from ottla.connect.errors import ConnectError, DataError

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_STRING, _INT, _PASSWORD, _LIST = ConfigType.STRING, ConfigType.INT, ConfigType.PASSWORD, ConfigType.LIST


@dataclass(frozen=True)
class Target:
    """Vendor-neutral settings of both sinks: the destination and the format of requests."""

    url: str
    method: str
    access: Access
    batch: int
    prefix: str
    suffix: str
    separator: str
    #: ignore, fail or delete.
    without_value: str


class _HttpSink(SinkConnector):
    delivery = "at least once"

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        try:
            self.target(config)
        except ConnectError as error:
            name = error.message.split(" ", 1)[0].rstrip(":")
            return {
                name if name in self.config_def.keys else next(iter(self.config_def.keys)): [error.message]
            }
        return {}

    @classmethod
    def target(cls, config: Config) -> Target:
        raise NotImplementedError

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config) for _ in range(max_tasks)]


class AivenHttpSinkConnector(_HttpSink):
    config_def = (
        ConfigDef()
        .define(
            "http.url",
            _STRING,
            importance=_HIGH,
            documentation="URL to send records to.",
            validator=not_empty,
        )
        .define(
            "http.authorization.type",
            _STRING,
            "none",
            _HIGH,
            "Type of login.",
            validator=one_of("none", "static", "oauth2", "apikey"),
        )
        .define(
            "http.headers.authorization", _PASSWORD, "", _MEDIUM, "The header Authorization, with static."
        )
        .define("http.headers.content.type", _STRING, "", _LOW, "The header Content-Type.")
        .define("http.headers.additional", _LIST, [], _LOW, "More headers, each name:value.")
        .define("http.timeout", _INT, 30, _LOW, "Seconds to wait for an answer.", validator=at_least(1))
        .define(
            "http.ssl.trust.all.certs",
            ConfigType.BOOLEAN,
            False,
            _LOW,
            "Accept any certificate.",
        )
    )
    AIVEN_OAUTH2.define(config_def)
    config_def.define(
        "batching.enabled",
        ConfigType.BOOLEAN,
        False,
        _HIGH,
        "Send several records in one request.",
    )
    define_batches(config_def, most=500, suffix="\n", separator="\n", importance=_MEDIUM)
    define_retries(config_def, 1)
    summary = "records to an HTTP server, with Aiven's settings"

    @classmethod
    def target(cls, config: Config) -> Target:
        settings = cls.config_def.parse(config)
        check_url("http.url", settings["http.url"])
        headers = header_list("http.headers.additional", settings["http.headers.additional"])
        if settings["http.headers.content.type"]:
            headers["Content-Type"] = settings["http.headers.content.type"]
        login = settings["http.authorization.type"]
        if login in ("static", "apikey"):
            if not settings["http.headers.authorization"]:
                raise ConnectError(
                    "http.headers.authorization must be set with http.authorization.type static."
                )
            headers["Authorization"] = settings["http.headers.authorization"]
        batching = settings["batching.enabled"]
        access = Access(
            headers,
            oauth2=AIVEN_OAUTH2.of(settings) if login == "oauth2" else None,
            timeout=settings["http.timeout"],
            verify=not settings["http.ssl.trust.all.certs"],
            retries=settings["max.retries"],
            backoff=settings["retry.backoff.ms"] / 1000,
        )
        return Target(
            settings["http.url"],
            "POST",
            access,
            settings["batch.max.size"] if batching else 1,
            _text_of(config, "batch.prefix", "") if batching else "",
            _text_of(config, "batch.suffix", "\n") if batching else "",
            _text_of(config, "batch.separator", "\n"),
            "fail",
        )


class ConfluentHttpSinkConnector(_HttpSink):
    config_def = (
        ConfigDef()
        .define(
            "http.api.url",
            _STRING,
            importance=_HIGH,
            documentation="URL to send records to, with ${topic} and ${key}.",
            validator=not_empty,
        )
        .define(
            "request.method",
            _STRING,
            "POST",
            _HIGH,
            "The method.",
            validator=one_of("POST", "PUT", "PATCH", "DELETE"),
        )
        .define(
            "request.body.format",
            _STRING,
            "string",
            _MEDIUM,
            "string or json; structs and maps are JSON in any case.",
            validator=one_of("string", "json", "STRING", "JSON"),
        )
        .define("headers", _STRING, "", _HIGH, "Headers, each name:value.")
        .define("header.separator", _STRING, "|", _HIGH, "Separator between headers.", validator=not_empty)
        .define(
            "behavior.on.null.values",
            _STRING,
            "ignore",
            _LOW,
            "Treatment of records without a value.",
            validator=one_of("ignore", "delete", "fail"),
        )
    )
    CONFLUENT_OAUTH2.define(define_login(config_def, "basic", "oauth2"))
    define_batches(config_def, most=1, suffix="", separator=",", importance=_HIGH)
    config_def.define(
        "batch.json.as.array",
        ConfigType.BOOLEAN,
        False,
        _HIGH,
        "Send the records of a request as a JSON array.",
    )
    define_retries(config_def, 10).define(
        "retry.on.status.codes",
        _STRING,
        "",
        _MEDIUM,
        "Status codes to retry. [default: temporary errors]",
    ).define(
        "http.request.timeout.ms",
        _INT,
        30000,
        _MEDIUM,
        "Time to wait for a response.",
        validator=at_least(1),
    )
    summary = "records to an HTTP server, with Confluent's settings"

    @classmethod
    def target(cls, config: Config) -> Target:
        settings = cls.config_def.parse(config)
        check_url("http.api.url", settings["http.api.url"])
        lines = [each for each in settings["headers"].split(settings["header.separator"]) if each.strip()]
        login = settings["auth.type"].lower()
        access = Access(
            header_list("headers", lines),
            basic_login(settings),
            CONFLUENT_OAUTH2.of(settings) if login == "oauth2" else None,
            settings["http.request.timeout.ms"] / 1000,
            retries=settings["max.retries"],
            backoff=settings["retry.backoff.ms"] / 1000,
            retry_statuses=statuses(settings["retry.on.status.codes"]) or Access().retry_statuses,
        )
        as_array = settings["batch.json.as.array"]
        return Target(
            settings["http.api.url"],
            settings["request.method"],
            access,
            settings["batch.max.size"],
            "[" if as_array else _text_of(config, "batch.prefix", ""),
            "]" if as_array else _text_of(config, "batch.suffix", ""),
            "," if as_array else _text_of(config, "batch.separator", ","),
            settings["behavior.on.null.values"],
        )


def _text_of(config: Config, name: str, default: str) -> str:
    """Return the value unstripped, because blanks are significant."""
    return config.get(name, default)


class HttpSinkTask(SinkTask):
    connector: ClassVar[type[_HttpSink]]

    def start(self, config: Config, context: SinkTaskContext) -> None:
        self._client: HttpClient | None = None
        self._target = self.connector.target(config)
        self._context = context
        self._client = HttpClient(self._target.access)

    def stop(self) -> None:
        client = getattr(self, "_client", None)
        if client is not None:
            client.close()

    def put(self, records: Sequence[SinkRecord]) -> None:
        for (method, url), group in itertools.groupby(filter(self._is_wanted, records), self._request):
            together = list(group)
            step = 1 if method == "DELETE" else self._target.batch
            for first in range(0, len(together), step):
                self._send(method, url, together[first : first + step])

    def _is_wanted(self, record: SinkRecord) -> bool:
        if record.value is not None or self._target.without_value == "delete":
            return True
        if self._target.without_value == "fail":
            self._context.report(record, DataError("The record has no value that could be sent."))
        return False

    def _request(self, record: SinkRecord) -> tuple[str, str]:
        target = self._target
        url = target.url.replace("${topic}", quote(record.topic, safe=""))
        if "${key}" in url:
            url = url.replace("${key}", quote(_body(record.key), safe=""))
        return "DELETE" if record.value is None else target.method, url

    def _send(self, method: str, url: str, records: Sequence[SinkRecord]) -> None:
        assert self._client is not None
        target = self._target
        content = None
        if method != "DELETE":
            bodies = target.separator.join(_body(record.value) for record in records)
            content = f"{target.prefix}{bodies}{target.suffix}".encode()
        try:
            self._client.send(method, url, content=content)
        except Refused as error:
            for record in records:
                self._context.report(record, error)


def _body(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode(errors="replace")
    return to_json(value)


for _each in (AivenHttpSinkConnector, ConfluentHttpSinkConnector):
    _each.task_class = type(
        _each.__name__.replace("Connector", "Task"), (HttpSinkTask,), {"connector": _each}
    )
