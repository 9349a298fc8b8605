"""Schema validation of records, enabled per topic by confluent.value.schema.validation and its key counterpart.

A key or value passes if it starts with a schema id (or a header names one) and the registry has that schema under the
subject from the topic's naming strategy. Null keys and values pass. The data itself is not decoded.

The broker asks the registry once per id and subject. It caches positive answers for some minutes and negative ones for
a second, since a missing schema may be registered right afterwards. While the registry is unreachable, records with
unknown ids get a retriable error.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import urllib.error
import urllib.request
import uuid
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from http.client import HTTPException
from struct import Struct
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from ottla.broker.coordinators.transactions import Refused
from ottla.broker.requests.inspections import Inspections
from ottla.log.append_check import LOOP_BYTES, LOOP_RECORDS, MOST_NAMED_RECORDS
from ottla.log.config import RefusedRecordsError
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.topic_configs import (
    KEY_STRATEGY,
    KEY_VALIDATION,
    RECORD_NAME,
    SCHEMA_REGISTRY_URL,
    TOPIC_NAME,
    VALUE_STRATEGY,
    VALUE_VALIDATION,
)
from ottla.protocol.compression import MAX_DECOMPRESSED_SIZE, Buffer, TooLargeError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest
from ottla.protocol.record_format import Record
from ottla.protocol.records import read_batch, read_header

logger = logging.getLogger(__name__)

_TOPIC_IDS = 13
_ID = Struct(">i").unpack_from
_FRAME_BYTES = 5
_GUID_BYTES = 17
_KNOWN_SECONDS = 300.0
_UNKNOWN_SECONDS = 1.0
_TIMEOUT_SECONDS = 10.0
_MOST_KEPT = 100_000
_MOST_SCHEMAS = 1000  # per batch: each is one registry request
_MOST_RECORDS = 500_000  # per batch: each becomes an object

#: Number or GUID of a schema.
SchemaId = int | str


class _Part(NamedTuple):
    """The validated part of a record: key or value."""

    name: str
    header: str
    validation: str
    strategy: str
    of: Callable[[Record], bytes | None]


_PARTS = (
    _Part("key", "__key_schema_id", KEY_VALIDATION, KEY_STRATEGY, lambda record: record.key),
    _Part("value", "__value_schema_id", VALUE_VALIDATION, VALUE_STRATEGY, lambda record: record.value),
)


class _Rule(NamedTuple):
    part: _Part
    topic: str
    strategy: str

    def accepts(self, subjects: list[str]) -> bool:
        # Contexts precede a subject, as in `:.sales:orders-value`.
        plain = [subject.rsplit(":", 1)[-1] for subject in subjects]
        if self.strategy == TOPIC_NAME:
            return f"{self.topic}-{self.part.name}" in plain
        if self.strategy == RECORD_NAME:
            return bool(plain)
        return any(subject.startswith(f"{self.topic}-") for subject in plain)

    def __str__(self) -> str:
        if self.strategy == TOPIC_NAME:
            return f"subject {self.topic}-{self.part.name}"
        return "any subject" if self.strategy == RECORD_NAME else f"a subject {self.topic}-…"


class _SchemaIds(NamedTuple):
    """Schemas named in a batch with their first records, and records without a schema."""

    places: dict[tuple[_Rule, SchemaId], list[int]]
    faults: list[tuple[int, str]]


_Name = tuple[str, int]
_Asked = dict[_Name, dict[tuple[_Rule, SchemaId], list[int]]]


class SchemaValidation:
    """Owner: the event loop. Threads query the registry and own nothing."""

    def __init__(self, image: ClusterImage, registry: SchemaRegistry, inspections: Inspections) -> None:
        self._image = image
        self._inspections = inspections
        self._registry = registry
        self._accepted: dict[tuple[_Rule, SchemaId], tuple[bool, float]] = {}

    def check(self, request: ProduceRequest, version: int) -> Refused | Awaitable[Refused]:
        """Return the partitions with rejected records. Waits for new ids and for large batches to be read."""
        refused: Refused = {}
        asked: _Asked = {}
        large: list[tuple[_Name, PartitionProduceData, list[_Rule]]] = []
        for topic in request.topic_data:
            known = (
                self._image.topics_by_id.get(topic.topic_id)
                if version >= _TOPIC_IDS
                else self._image.topics.get(topic.name)
            )
            rules = [] if known is None else _rules(known.name, known.configs)
            if not rules or known is None:
                continue
            for data in topic.partition_data:
                name = (known.name, data.index)
                records = data.records or b""
                try:
                    if read_header(records).record_count > LOOP_RECORDS or len(records) > LOOP_BYTES:
                        raise TooLargeError(LOOP_BYTES)
                    self._note(name, _schema_ids(records, rules, LOOP_BYTES), asked, refused)
                except TooLargeError:
                    large.append((name, data, rules))
                except KafkaError as error:  # the append reports the fault
                    logger.debug("The records for %s-%d cannot be read: %s", *name, error)
        if large:
            return self._check_large(large, asked, refused)
        return self._decide(asked, refused)

    async def _check_large(
        self,
        large: list[tuple[_Name, PartitionProduceData, list[_Rule]]],
        asked: _Asked,
        refused: Refused,
    ) -> Refused:
        for name, data, rules in large:
            try:
                found = await self._inspections.run(_schema_ids, data.records, rules)
                self._note(name, found, asked, refused)
            except RefusedRecordsError as error:
                refused[name] = error
            except KafkaError as error:
                logger.debug("The records for %s-%d cannot be read: %s", *name, error)
        decided = self._decide(asked, refused)
        return decided if isinstance(decided, dict) else await decided

    @staticmethod
    def _note(name: _Name, found: _SchemaIds, asked: _Asked, refused: Refused) -> None:
        if found.faults:
            refused[name] = _refusal(found.faults)
        elif len(found.places) > _MOST_SCHEMAS:
            refused[name] = KafkaError(
                ErrorCode.INVALID_RECORD, f"the batch names more than {_MOST_SCHEMAS} schemas"
            )
        else:
            asked[name] = found.places

    def _decide(self, asked: _Asked, refused: Refused) -> Refused | Awaitable[Refused]:
        unknown = {each for places in asked.values() for each in places if self._kept(*each) is None}
        if unknown:
            return self._ask(unknown, asked, refused)
        return self._judge(asked, refused)

    async def _ask(
        self,
        unknown: set[tuple[_Rule, SchemaId]],
        asked: _Asked,
        refused: Refused,
    ) -> Refused:
        if len(self._accepted) > _MOST_KEPT:
            self._accepted.clear()
        try:
            for rule, schema_id in unknown:
                subjects = await asyncio.to_thread(self._registry.subjects, schema_id)
                accepted = rule.accepts(subjects)
                lasts = _KNOWN_SECONDS if accepted else _UNKNOWN_SECONDS
                self._accepted[rule, schema_id] = (accepted, time.monotonic() + lasts)
        except OSError as error:
            logger.warning("Records cannot be checked for their schemas: %s", error)
            unreachable = KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error))
            return {**refused, **dict.fromkeys(asked, unreachable)}
        return self._judge(asked, refused)

    def _kept(self, rule: _Rule, schema_id: SchemaId) -> bool | None:
        found = self._accepted.get((rule, schema_id))
        return None if found is None or found[1] < time.monotonic() else found[0]

    def _judge(self, asked: _Asked, refused: Refused) -> Refused:
        for name, found in asked.items():
            faults = [
                (place, f"{rule} has no schema {schema_id}, which the {rule.part.name} names")
                for (rule, schema_id), places in found.items()
                if not self._accepted[rule, schema_id][0]
                for place in places
            ]
            if faults:
                refused[name] = _refusal(sorted(faults))
        return refused


def _rules(topic: str, configs: Mapping[str, str]) -> list[_Rule]:
    return [
        _Rule(part, topic, configs.get(part.strategy, TOPIC_NAME))
        for part in _PARTS
        if configs.get(part.validation, "false").strip().lower() == "true"
    ]


def _schema_ids(records: Buffer, rules: list[_Rule], max_size: int = MAX_DECOMPRESSED_SIZE) -> _SchemaIds:
    """Read the schema ids of a batch. May run in a thread. Raises KafkaError."""
    count = read_header(records).record_count
    if count > _MOST_RECORDS:
        raise RefusedRecordsError(
            ErrorCode.INVALID_RECORD,
            f"the batch has {count} records; at most {_MOST_RECORDS} are checked for their schemas",
            [],
        )
    places: dict[tuple[_Rule, SchemaId], list[int]] = {}
    faults: list[tuple[int, str]] = []
    for place, record in enumerate(read_batch(records, 0, max_size)):
        for rule in rules:
            data = rule.part.of(record)
            if data is None:
                continue
            schema_id = _schema_id(record, rule.part, data)
            if schema_id is not None:
                named = places.setdefault((rule, schema_id), [])
                if len(named) < MOST_NAMED_RECORDS:
                    named.append(place)
            elif len(faults) < MOST_NAMED_RECORDS:
                faults.append((place, f"the {rule.part.name} does not begin with the id of a schema"))
    return _SchemaIds(places, faults)


def _schema_id(record: Record, part: _Part, data: bytes) -> SchemaId | None:
    for name, value in record.headers:
        if name == part.header and value is not None:
            framed = bytes(value)
            break
    else:
        framed = bytes(data[:_FRAME_BYTES])
    if len(framed) >= _FRAME_BYTES and framed[0] == 0:
        return int(_ID(framed, 1)[0])
    if len(framed) == _GUID_BYTES and framed[0] == 1:
        return str(uuid.UUID(bytes=framed[1:]))
    return None


def _refusal(faults: list[tuple[int, str]]) -> RefusedRecordsError:
    places = sorted({place for place, _ in faults})[:MOST_NAMED_RECORDS]
    place, reason = faults[0]
    which = f"Record {place} of the batch is refused"
    if len(places) > 1:
        which = f"{len(places)} records of the batch are refused, the first of them record {place}"
    return RefusedRecordsError(ErrorCode.INVALID_RECORD, f"{which}: {reason}", places)


class SchemaRegistry:
    """The registry from the broker's settings. Called in threads."""

    def __init__(self, urls: list[str], user_info: str | None) -> None:
        self._urls = list(_with_credentials(urls, user_info))

    @classmethod
    def of(cls, config: BrokerConfig) -> SchemaRegistry | None:
        urls = [url.strip() for url in config.get_list(SCHEMA_REGISTRY_URL)]
        if not urls:
            return None
        return cls(urls, config.get_optional_str("confluent.basic.auth.user.info"))

    def subjects(self, schema_id: SchemaId) -> list[str]:
        """Return the subjects of a schema, none if unknown. Raises OSError if no registry answers."""
        if isinstance(schema_id, int):
            return self._subjects(f"{schema_id}/subjects")
        places = self._get(f"/schemas/guids/{schema_id}/ids") or ()
        found = [self._subjects(f"{each['id']}/subjects?subject=:{each['context']}:") for each in places]
        return [subject for subjects in found for subject in subjects]

    def _subjects(self, path: str) -> list[str]:
        return [str(subject) for subject in self._get(f"/schemas/ids/{path}") or ()]

    def _get(self, path: str) -> Any:
        """Return the response of the first working registry, None if not found."""
        failure = ""
        for url, headers in self._urls:
            try:
                request = urllib.request.Request(url + path, headers=headers)
                with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 404:
                    return None
                failure = f"{url} answers {error.code}"
            except (OSError, HTTPException, ValueError) as error:
                failure = f"{url}: {getattr(error, 'reason', error)}"
        raise OSError(f"The schema registry ({SCHEMA_REGISTRY_URL}) does not answer as it should: {failure}")


def _with_credentials(urls: list[str], user_info: str | None) -> Iterator[tuple[str, dict[str, str]]]:
    for url in urls:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        credentials = user_info
        if parts.username is not None:
            credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = {}
        if credentials:
            headers["Authorization"] = f"Basic {b64encode(credentials.encode()).decode()}"
        yield urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", "")), headers
