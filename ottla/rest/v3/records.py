"""Produce with v3: a stream of JSON objects in, a stream of results out, for as long as the client likes.

Objects that arrive together are written together.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from ottla.http import HttpError, Request, Response, Router, json_response
from ottla.rest import formats
from ottla.rest import formats as bodies
from ottla.rest.clients import Identity
from ottla.rest.embedded import Embedded
from ottla.rest.errors import BAD_BATCH, bad_request, unprocessable
from ottla.rest.formats import v3_type
from ottla.rest.produce import NewRecord, Producing, Written
from ottla.rest.v3.api import Api, Asked

_MOST_TOGETHER = 5000
_MOST_IN_BATCH = 10
_BATCH_ID = re.compile(r"[0-9a-zA-Z_-]{1,80}")
_OK = 200
_FIELDS = ("id", "partition_id", "headers", "key", "value", "timestamp")
_PART_FIELDS = (
    "type",
    "subject",
    "subject_name_strategy",
    "schema_id",
    "schema_version",
    "schema",
    "data",
)


class Records:
    def __init__(self, api: Api, producing: Producing, embedded: Embedded) -> None:
        self._api = api
        self._producing = producing
        self._embedded = embedded

    def add_to(self, router: Router) -> None:
        add = self._api.add
        path = "/topics/{topic}/records"
        add(router, "POST", path, self.produce, "Write records, one or a stream of them")
        add(router, "POST", f"{path}:batch", self.produce_batch, "Write several records")

    async def produce_batch(self, asked: Asked) -> Response:
        """Write the entries of a batch. Each has an id, by which the answer names it."""
        given = await bodies.json_object(asked.request, "entries")
        entries = bodies.items(given, "entries", *_FIELDS)
        ids = [each.get("id") for each in entries]
        for each in ids:
            if not isinstance(each, str) or not _BATCH_ID.fullmatch(each):
                raise unprocessable("Batch entry identifier not a valid string.", BAD_BATCH)
        if len(set(ids)) < len(ids):
            raise unprocessable("Entry IDs are not distinct.", BAD_BATCH)
        if not entries:
            raise unprocessable("Empty batch.", BAD_BATCH)
        if len(entries) > _MOST_IN_BATCH:
            raise unprocessable("Too many entries in batch.", BAD_BATCH)
        results = await self._write(asked, entries)
        answer: dict[str, list[dict[str, Any]]] = {"successes": [], "failures": []}
        for name, result in zip(ids, results, strict=True):
            if result["error_code"] == _OK:
                del result["error_code"]
                answer["successes"].append({"id": name, **result})
            else:
                answer["failures"].append({"id": name, **result})
        return json_response(answer, 207)

    async def produce(self, asked: Asked) -> Response:
        return Response(200, self._results(asked), "application/json")

    async def _results(self, asked: Asked) -> AsyncIterator[bytes]:
        async for given in _objects(asked.request):
            results = await self._write(asked, given)
            yield b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\r\n" for each in results)

    async def _write(self, asked: Asked, given: list[Any]) -> list[dict[str, Any]]:
        topic = asked.param("topic")
        results: list[dict[str, Any] | None] = []
        records: list[NewRecord] = []
        described: list[dict[str, Any]] = []
        for each in given:
            try:
                if isinstance(each, HttpError):
                    raise each
                record, sizes = await self._record(asked.identity, topic, each)
                records.append(record)
                described.append(sizes)
                results.append(None)
            except HttpError as error:
                results.append(_failure(error))
        try:
            written: list[Written | HttpError] = []
            if records:
                written = await self._producing.write(asked.identity, topic, records)
        except HttpError as error:
            written = [error] * len(records)
        answers = iter(zip(written, described, strict=True))
        return [each or _result(asked, *next(answers)) for each in results]

    async def _record(self, caller: Identity, topic: str, given: Any) -> tuple[NewRecord, dict[str, Any]]:
        if not isinstance(given, dict):
            raise bad_request("A record must be a JSON object.")
        _check_fields(given, _FIELDS)
        parts: dict[str, bytes | None] = {}
        sizes: dict[str, Any] = {}
        for which in ("key", "value"):
            part = given.get(which)
            if part is None:
                parts[which] = None
                continue
            if not isinstance(part, dict):
                raise bad_request(f"The {which} must be an object with type and data.")
            _check_fields(part, _PART_FIELDS)
            if "data" not in part:
                raise bad_request(f"The {which} has no data.")
            kind = None if "type" not in part else v3_type(part["type"], which)
            parts[which], sizes[which] = await self._embedded.encode_inline(caller, kind, topic, which, part)
        headers = tuple(
            (bodies.text(each, "name"), formats.encode(each.get("value"), "binary"))
            for each in bodies.optional_items(given, "headers", "name", "value")
        )
        partition = bodies.number(given, "partition_id", None)
        if partition is not None and partition < 0:
            raise bad_request(f"partition_id must not be negative, and is {partition}.")
        return NewRecord(parts["key"], parts["value"], partition, _timestamp(given), headers), sizes


def _check_fields(given: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise bad_request(f'Unrecognized field "{name}". Known fields are {", ".join(known)}.')


def _timestamp(given: dict[str, Any]) -> int | None:
    text = given.get("timestamp")
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        raise bad_request(f"timestamp must be like 2026-01-31T12:00:00Z, not {text}.") from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return int(found.timestamp() * 1000)


def _result(asked: Asked, written: Written | HttpError, sizes: dict[str, Any]) -> dict[str, Any]:
    if isinstance(written, HttpError):
        return _failure(written)
    return {
        "error_code": 200,
        "cluster_id": asked.links.cluster_id,
        "topic_name": asked.param("topic"),
        "partition_id": written.partition,
        "offset": written.offset,
        "timestamp": _shown(written.timestamp),
        **sizes,
    }


def _shown(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _failure(error: HttpError) -> dict[str, Any]:
    return {"error_code": error.error_code, "message": error.message}


async def _objects(request: Request) -> AsyncIterator[list[Any]]:
    """Yield JSON objects in groups that arrived together. The last may be an HttpError."""
    decoder = json.JSONDecoder()
    left = b""
    async for chunk in request.chunks():
        left += chunk
        if len(left) > request.max_body:
            yield [HttpError(413, 413, f"A record is larger than {request.max_body} bytes.")]
            return
        found, left, failure = _decoded(decoder, left)
        for start in range(0, len(found), _MOST_TOGETHER):
            yield found[start : start + _MOST_TOGETHER]
        if failure is not None:
            yield [failure]
            return
    if left.strip(b" \t\r\n,"):
        yield [bad_request("The last record is cut off, or is not JSON.")]


def _decoded(decoder: json.JSONDecoder, data: bytes) -> tuple[list[Any], bytes, HttpError | None]:
    """Return all complete objects, and the remaining bytes."""
    end = data.rfind(b"}") + 1
    if not end:
        return [], data, None
    try:
        text = data[:end].decode()
    except UnicodeDecodeError:
        return [], b"", bad_request("The records are not UTF-8.")
    found: list[Any] = []
    position = 0
    while position < len(text):
        while position < len(text) and text[position] in " \t\r\n,":
            position += 1
        if position == len(text):
            break
        if text[position] != "{":
            return (
                found,
                b"",
                bad_request(f"A record must begin with a brace, not {formats.shown(text[position])}."),
            )
        try:
            value, position = decoder.raw_decode(text, position)
        except RecursionError:
            return found, b"", bad_request("A record is nested too deeply.")
        except ValueError:
            break  # still incomplete
        found.append(value)
    return found, text[position:].encode() + data[end:], None
