"""Messages of a topic: pages, search, live tail, and files."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from ottla.client.admin.offsets import latest_offsets
from ottla.client.errors import ClientError
from ottla.console.cluster.source import TopicState
from ottla.console.messages import selection
from ottla.console.messages.decoding import MOST_ITEMS, Decoder, Masker, ShownMessage, decode_page, masker_of
from ottla.console.messages.reading import PageBounds, read_range
from ottla.console.messages.scanning import MODES, PLACES, BadQuery, matcher
from ottla.console.messages.search import Job, search
from ottla.console.messages.search_process import FOLLOW_AT_ONCE, FOLLOW_EVERY, FOLLOW_QUIET
from ottla.console.messages.selection import (
    FORMATS,
    ParquetFile,
    Selection,
    available,
    csv_head,
    csv_row,
    json_row,
)
from ottla.console.pages.topics import TOPIC, topic_state
from ottla.console.settings import Mask
from ottla.console.web.app import Route
from ottla.console.web.streaming import EVENT_STREAM, KEEP_ALIVE, FromThread, event
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

_HITS = 500
_MOST_EXPORTED = 100_000


class Messages:
    def __init__(self, masks: Sequence[Mask]) -> None:
        self._masks = masks

    def routes(self) -> Iterator[Route]:
        yield Route("GET", f"{TOPIC}/messages", self.messages)
        yield Route("GET", f"{TOPIC}/messages/search", self.search, json=False)
        yield Route("GET", f"{TOPIC}/messages/tail", self.tail, json=False)
        yield Route("GET", f"{TOPIC}/messages/export", self.export, json=False)

    def masker(self, visit: Visit, topic: str) -> Masker | None:
        return masker_of(self._masks, topic, visit.user)

    def _masks_for(self, visit: Visit, topic: str) -> list[Mask]:
        masker = self.masker(visit, topic)
        return [] if masker is None else list(masker.masks)

    # -- a page --

    async def messages(self, visit: Visit) -> Page | Response:
        state = await topic_state(visit)
        wanted = _selection(visit)
        numbers = wanted.partitions([each.number for each in state.partitions])
        is_search = bool(wanted.query.text)
        is_live = visit.query.get("live") == "1"
        shown: list[ShownMessage] = []
        following: dict[int, int] = {}
        problem = None
        try:
            matcher(wanted.query)
        except BadQuery as error:
            problem = str(error)
        if is_search and visit.wants_json and problem is None:
            shown, following = await self._hits(visit, wanted.limit)
        elif not is_live and not is_search and problem is None:
            decoder, mask = Decoder(visit.site.codecs, MOST_ITEMS), self.masker(visit, state.name)
            found, following = await visit.site.calls.read(selection.read, state.name, numbers, wanted)
            shown = await visit.site.calls.run(
                decode_page, found, lambda each: _shown(decoder, mask, each), mask is not None
            )
        more = self._form(visit, state, wanted) | {
            "tab": "messages",
            "shown": shown,
            "problem": problem,
            "stream": self._stream(visit, state, is_live=is_live, is_search=is_search and problem is None),
            "next": _link(visit, at=selection.cursor_text(following)) if following else None,
        }
        data = {
            "topic": state.name,
            "internal": state.internal,
            "messages": [each.document() for each in shown],
            "next": selection.cursor_text(following),
        }
        if problem is not None and visit.wants_json:
            raise HttpError(400, 400, problem)
        return Page("messages/messages.html", data, 400 if problem else 200, more)

    def _form(self, visit: Visit, state: TopicState, wanted: Selection) -> dict[str, Any]:
        return {
            "selection": wanted,
            "numbers": [each.number for each in state.partitions],
            "starts": selection.STARTS,
            "modes": MODES,
            "places": PLACES,
            "chosen_places": wanted.query.places,
            "time_text": visit.query.get("time", ""),
            "exports": [(each, self._export_link(visit, state, each, wanted.limit)) for each in available()],
            "whole_exports": [
                (each, self._export_link(visit, state, each, _MOST_EXPORTED)) for each in available()
            ],
            "masked": self.masker(visit, state.name) is not None,
            "is_live": visit.query.get("live") == "1",
            "live_link": _link(visit, live="1", at=""),
            "still_link": _link(visit, live="", at=""),
        }

    def _export_link(self, visit: Visit, state: TopicState, kind: str, count: int) -> str:
        base = visit.url("topics", state.name, "messages", "export")
        return base + _link(visit, format=kind, count=str(count), at="", live="")

    def _stream(
        self, visit: Visit, state: TopicState, *, is_live: bool, is_search: bool
    ) -> dict[str, Any] | None:
        if not is_live and not is_search:
            return None
        name = "tail" if is_live else "search"
        return {
            "url": visit.url("topics", state.name, "messages", name) + _link(visit, live=""),
            "order": "prepend" if is_live else "append",
            "live": is_live,
        }

    # -- a search --

    async def _job(self, visit: Visit, limit: int) -> Job:
        state = await topic_state(visit)
        wanted = _selection(visit)
        try:
            matcher(wanted.query)
        except BadQuery as error:
            raise HttpError(400, 400, str(error)) from None
        numbers = wanted.partitions([each.number for each in state.partitions])
        found = await visit.site.calls.read(selection.ranges, state.name, numbers, wanted)
        return Job(
            visit.site.settings,
            state.name,
            found,
            wanted.query,
            limit,
            wanted.committed_only,
            self._masks_for(visit, state.name),
            newest_first=wanted.start == "newest",
        )

    async def _hits(self, visit: Visit, limit: int) -> tuple[list[ShownMessage], dict[int, int]]:
        """Return a page of hits and the cursor of the next page, for clients without streaming."""
        hits: list[ShownMessage] = []
        following: dict[int, int] = {}
        async for line in search(await self._job(visit, limit)):
            if "hit" in line:
                hits.append(line["hit"])
            elif "failed" in line:
                raise HttpError(502, 502, line["failed"])
            elif "end" in line:
                following = _cursor_of(line["end"])
        return hits, following

    async def search(self, visit: Visit) -> Page | Response:
        job = await self._job(visit, _HITS)
        found = search(job)

        async def events() -> AsyncIterator[bytes]:
            async for line in found:
                if "hit" in line:
                    rows = visit.app.fragment(visit, "messages/rows.html", {"shown": [line["hit"]]})
                    yield event("rows", rows)
                elif "progress" in line:
                    yield event(
                        "progress", json.dumps({**line["progress"], "text": _progress(line["progress"])})
                    )
                elif "failed" in line:
                    yield event("failed", line["failed"])
                else:
                    if following := _cursor_of(line["end"]):
                        yield event("more", _link(visit, at=selection.cursor_text(following)))
                    yield event("end", _conclusion(line["end"]))

        return Response(200, events(), EVENT_STREAM, on_close=found.stop)

    # -- a live tail --

    async def tail(self, visit: Visit) -> Page | Response:
        state = await topic_state(visit)
        wanted = _selection(visit)
        keys = [
            (state.name, number) for number in wanted.partitions([each.number for each in state.partitions])
        ]
        decoder, mask = Decoder(visit.site.codecs, MOST_ITEMS), self.masker(visit, state.name)
        try:
            matches = matcher(wanted.query)
        except BadQuery as error:
            raise HttpError(400, 400, str(error)) from None
        if wanted.query.text and wanted.query.mode in ("regex", "expression"):
            return await self._tail_in_process(visit)
        calls = visit.site.calls

        def follow(emit: Callable[[list[ShownMessage]], None]) -> None:
            cluster = calls.borrow()
            try:
                positions = latest_offsets(cluster, keys)
                emit([])  # the page shows messages from here
                quiet_since = time.monotonic()
                while not following.stopped.wait(FOLLOW_EVERY):
                    ends = latest_offsets(cluster, keys)
                    new: list[ShownMessage] = []
                    page = PageBounds()
                    for key in keys:
                        # If too many messages arrive at once, show the newest.
                        start = max(positions[key], ends[key] - FOLLOW_AT_ONCE)
                        found = read_range(cluster, key, start, ends[key], page=page)
                        new += decode_page(found, lambda each: _shown(decoder, mask, each), mask is not None)
                    positions = ends
                    new = sorted(filter(matches, new), key=lambda each: each.timestamp)[-FOLLOW_AT_ONCE:]
                    if new or time.monotonic() - quiet_since > FOLLOW_QUIET:
                        quiet_since = time.monotonic()
                        emit(new)
            finally:
                cluster.close()

        following: FromThread[list[ShownMessage]] = FromThread(follow)

        async def events() -> AsyncIterator[bytes]:
            count = 0
            try:
                async for new in following:
                    if not new and count:
                        yield KEEP_ALIVE
                        continue
                    count += len(new)
                    if new:
                        yield event("rows", visit.app.fragment(visit, "messages/rows.html", {"shown": new}))
                    yield _following(count)
            except ClientError as error:
                yield event("failed", error.message)

        return Response(200, events(), EVENT_STREAM, on_close=following.stop)

    async def _tail_in_process(self, visit: Visit) -> Response:
        """Follow with a condition that could run forever: only a process of its own can be stopped."""
        found = search(replace(await self._job(visit, _HITS), follow=True, newest_first=False))

        async def events() -> AsyncIterator[bytes]:
            said = -1
            async for line in found:
                if "hit" in line:
                    rows = visit.app.fragment(visit, "messages/rows.html", {"shown": [line["hit"]]})
                    yield event("rows", rows)
                elif "progress" in line and line["progress"]["found"] == said:
                    yield KEEP_ALIVE
                elif "progress" in line:
                    said = line["progress"]["found"]
                    yield _following(said)
                else:
                    yield event("failed", line["failed"])

        return Response(200, events(), EVENT_STREAM, on_close=found.stop)

    # -- files --

    async def export(self, visit: Visit) -> Page | Response:
        kind = visit.query.get("format", "json")
        if kind not in available():
            raise HttpError(400, 400, f"format must be one of {', '.join(available())}.")
        asked = visit.query.get("count") or visit.query.get("limit", "")
        count = min(int(asked), _MOST_EXPORTED) if asked.isdecimal() and len(asked) < 10 else _MOST_EXPORTED
        found = search(await self._job(visit, count))
        topic = visit.params["topic"]
        safe = "".join(each if each.isalnum() or each in "._-" else "_" for each in topic)
        headers = {"Content-Disposition": f'attachment; filename="{safe}.{kind}"'}
        body = _parquet(found) if kind == "parquet" else _rows(found, kind)
        return Response(200, body, FORMATS[kind], headers, on_close=found.stop)


async def _rows(found: FromThread[dict[str, Any]], kind: str) -> AsyncIterator[bytes]:
    as_row = csv_row if kind == "csv" else json_row
    before = b"["
    if kind == "csv":
        yield csv_head()
    async for line in found:
        if "hit" in line:
            row = as_row(line["hit"])
            if kind == "json":
                row, before = before + row, b","
            yield row
        elif "failed" in line:
            raise HttpError(502, 502, line["failed"])
    if kind == "json":
        yield b"[]\n" if before == b"[" else b"]\n"


async def _parquet(found: FromThread[dict[str, Any]]) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(ParquetFile)
    try:
        async for line in found:
            if "hit" in line:
                file.add(line["hit"])
            elif "failed" in line:
                raise HttpError(502, 502, line["failed"])
        await asyncio.to_thread(file.finish)
        while data := await asyncio.to_thread(file.file.read, 1 << 18):
            yield data
    finally:
        file.file.close()


def _selection(visit: Visit) -> Selection:
    places = [value for name, value in visit.request.query_values() if name == "in"]
    return selection.parse(visit.query, places)


def _link(visit: Visit, **changes: str) -> str:
    kept = [pair for pair in visit.request.query_values() if pair[0] not in changes and pair[1]]
    return "?" + urlencode(kept + [pair for pair in changes.items() if pair[1]])


def _shown(decoder: Decoder, mask: Masker | None, message: Any) -> ShownMessage:
    found = decoder.message(message)
    return found if mask is None else mask(found)


def _following(count: int) -> bytes:
    text = f"{count:,} messages since the page was opened" if count else "Waiting for messages…"
    return event("progress", json.dumps({"done": 0, "total": 0, "text": text}))


def _cursor_of(end: dict[str, Any]) -> dict[int, int]:
    return {int(number): offset for number, offset in end["next"].items()}


def _progress(counts: dict[str, int]) -> str:
    share = 100 * counts["done"] / counts["total"] if counts["total"] else 100
    return f"{counts['seen']:,} messages searched ({share:.0f} %), {counts['found']:,} found"


def _conclusion(counts: dict[str, Any]) -> str:
    more = " The search stopped there; the next page continues it." if counts["next"] else ""
    return f"{counts['seen']:,} messages searched, {counts['found']:,} found.{more}"
