"""Send new messages, and resend old ones."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.dead_letters import own_headers
from ottla.client.errors import ClientError
from ottla.client.produce import ProducedRecord, produce
from ottla.client.schema_codecs import BadData, SchemaCodecs, encode
from ottla.console.access.roles import Level
from ottla.console.messages.dead_letters import mark_done
from ottla.console.messages.decoding import MOST_ITEMS, Decoder, to_bytes
from ottla.console.messages.reading import Message, read_range
from ottla.console.pages.messages import Messages
from ottla.console.pages.topics import TOPIC, topic_state
from ottla.console.web.app import Route
from ottla.console.web.paging import Change, Plan, is_confirmed, plan_page
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response
from ottla.protocol.record_format import Header, Record

_KINDS = ("text", "json", "base64", "schema")


class Producing:
    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def routes(self) -> Iterator[Route]:
        yield Route("GET", f"{TOPIC}/produce", self.form, Level.OPERATOR, json=False)
        yield Route("POST", f"{TOPIC}/produce", self.send, Level.OPERATOR)
        yield Route("POST", f"{TOPIC}/resend", self.resend, Level.OPERATOR)

    async def form(self, visit: Visit) -> Page | Response:
        state = await topic_state(visit)
        given = {
            "key": "",
            "value": "",
            "headers": "",
            "partition": "",
            "key_kind": "text",
            "value_kind": "text",
            "letters": "",
            "letter": "",
        }
        letters = visit.query.get("letters", "")
        if visit.query.get("offset"):
            source = letters or state.name
            visit.require(Level.OPERATOR if letters else Level.VIEWER, source)
            self._refuse_masked(visit, source)
            message = await _message(visit, visit.query, source)
            if letters:
                message = message._replace(headers=own_headers(message.headers))
                given["letter"] = f"{message.partition}:{message.offset}"
            given |= {**_filled_in(visit, message), "letters": letters}
        return await self._page(visit, given, None)

    async def _page(self, visit: Visit, given: dict[str, Any], problem: str | None) -> Page:
        state = await topic_state(visit)
        return Page(
            "messages/produce.html",
            {"topic": state.name, "internal": state.internal},
            400 if problem else 200,
            {
                "tab": "produce",
                "given": given,
                "problem": problem,
                "numbers": [each.number for each in state.partitions],
                "kinds": _KINDS if visit.site.codecs is not None else _KINDS[:-1],
            },
        )

    async def send(self, visit: Visit) -> Page | Response:
        topic = visit.params["topic"]
        form = visit.form
        try:
            record = await visit.site.calls.run(_record, form, topic, visit.site.codecs)
            partition = _number(form["partition"]) if form.get("partition") else None
            if form.get("partition") and partition is None:
                raise ValueError(f"There is no partition {form['partition']}.")
        except (ValueError, ClientError) as error:
            return await self._page(visit, {**_BLANK, **form}, str(error))
        letter = await self._letter(visit)
        [produced] = await visit.site.calls.change(produce, topic, [record], partition)
        await visit.log("produce", topic, details=produced._asdict())
        if letter is not None:
            await visit.change("replay dead letters", letter.topic, mark_done, letter)
        return visit.redirect(_seen_at(visit, topic, produced), _where(topic, produced))

    async def _letter(self, visit: Visit) -> Message | None:
        """Return the dead letter that this message corrects. Raises HttpError."""
        letters = visit.form.get("letters", "")
        if not letters:
            return None
        visit.require(Level.OPERATOR, letters)
        partition, _, offset = visit.form.get("letter", "").partition(":")
        return await _message(visit, {"partition": partition, "offset": offset}, letters)

    async def resend(self, visit: Visit) -> Page | Response:
        """Send the same bytes again, to this topic or another one."""
        topic = visit.params["topic"]
        target = visit.form.get("target", "").strip() or topic
        visit.require(Level.OPERATOR, target)
        self._refuse_masked(visit, topic)
        message = await _message(visit, visit.form, topic)
        if not is_confirmed(visit):
            size = len(message.key or b"") + len(message.value or b"")
            changes = [Change(target, "", f"1 message more, of {size:,} bytes")]
            title = f"Send the message at offset {message.offset} of {topic}-{message.partition} again"
            return plan_page(visit, Plan(title, changes, "Send", visit.url("topics", topic, "messages")))
        record = Record(0, round(time.time() * 1000), message.key, message.value, message.headers)
        [produced] = await visit.site.calls.change(produce, target, [record])
        source = f"{topic}-{message.partition}@{message.offset}"
        await visit.log("resend", target, details={"source": source, **produced._asdict()})
        return visit.redirect(_seen_at(visit, target, produced), _where(target, produced))

    def _refuse_masked(self, visit: Visit, topic: str) -> None:
        if self._messages.masker(visit, topic) is not None:
            raise HttpError(403, 403, f"Messages of '{topic}' are masked: they cannot be copied elsewhere.")


_BLANK = {"key": "", "value": "", "headers": "", "partition": "", "key_kind": "text", "value_kind": "text",
          "letters": "", "letter": ""}  # fmt: skip


def _number(text: str) -> int | None:
    """Return None for anything but a partition or offset."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


async def _message(visit: Visit, given: dict[str, str], topic: str) -> Message:
    """Return the message named by a form. Raises HttpError."""
    partition, offset = (_number(given.get(name, "")) for name in ("partition", "offset"))
    if partition is None or offset is None:
        raise HttpError(400, 400, "The message is missing. Pass its partition and offset.")

    def find(cluster: Cluster) -> Message | None:
        found = list(read_range(cluster, (topic, partition), offset, offset + 1))
        return found[0] if found else None

    message = await visit.site.calls.read(find)
    if message is None:
        raise HttpError(404, 404, f"There is no message at offset {offset} of partition {partition}.")
    return message


def _filled_in(visit: Visit, message: Message) -> dict[str, Any]:
    shown = Decoder(visit.site.codecs, MOST_ITEMS).message(message)
    kinds = {"json": "json", "schema": "schema", "binary": "base64", "messagepack": "base64"}

    def part(name: str, data: bytes | None) -> dict[str, Any]:

        each = getattr(shown, name)
        kind = kinds.get(each.format, "text")
        text = base64.b64encode(data or b"").decode() if kind == "base64" else each.text
        if each.format == "json":
            text = (data or b"").decode()
        return {name: text, f"{name}_kind": kind, f"{name}_null": data is None}

    headers = "\n".join(f"{name}: {(each.text)}" for name, each in shown.headers)
    return {**part("key", message.key), **part("value", message.value), "headers": headers}


def _record(form: dict[str, str], topic: str, codecs: SchemaCodecs | None) -> Record:
    """Raises ValueError and ClientError."""

    def part(name: str) -> bytes | None:
        text, kind = form.get(name, ""), form.get(f"{name}_kind", "text")
        if form.get(f"{name}_null") == "1" or (name == "key" and not text):
            return None
        if kind == "schema":
            return _with_schema(codecs, f"{topic}-{name}", text)
        try:
            return to_bytes(text, kind)
        except ValueError as error:
            raise ValueError(f"{name.capitalize()}: {error}") from None

    # Browsers submit form lines with CR and LF.
    form = {name: value.replace("\r\n", "\n") for name, value in form.items()}
    return Record(0, round(time.time() * 1000), part("key"), part("value"), _headers(form.get("headers", "")))


def _with_schema(codecs: SchemaCodecs | None, subject: str, text: str) -> bytes:

    if codecs is None:
        raise ValueError("There is no schema registry.")
    schema = codecs.registry.latest(subject)
    try:
        return encode(codecs.by_id(schema.id), json.loads(text), schema.id)
    except BadData as error:
        raise ValueError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"That is not JSON: {error}.") from None


def _headers(text: str) -> list[Header]:
    found: list[Header] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise ValueError(f"Line {number} of the headers is not 'name: value'.")
        found.append((name.strip(), value.strip().encode()))
    return found


def _seen_at(visit: Visit, topic: str, produced: ProducedRecord) -> str:
    query = f"?partition={produced.partition}&from=offset&offset={produced.offset}"
    return visit.url("topics", topic, "messages") + query


def _where(topic: str, produced: ProducedRecord) -> str:
    return f"Sent to partition {produced.partition} of '{topic}', at offset {produced.offset}."
