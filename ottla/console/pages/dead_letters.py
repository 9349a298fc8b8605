"""Dead letters: unreadable records of pipelines and connectors, with reasons, and their replay."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from ottla.client.admin.offsets import earliest_offsets, latest_offsets
from ottla.client.cluster import Cluster
from ottla.client.dead_letters import (
    ERROR,
    OFFSET,
    PARTITION,
    REASON,
    TOPIC,
    Originals,
    Progress,
    why,
)
from ottla.client.produce import produce
from ottla.console.access.roles import Level
from ottla.console.messages.reading import Message, read_range
from ottla.console.pages.messages import Messages
from ottla.console.pages.topics import TOPIC as TOPIC_PATH
from ottla.console.pages.topics import topic_state
from ottla.console.web.app import Route
from ottla.console.web.paging import Change, Plan, is_confirmed, plan_page
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response
from ottla.protocol.record_format import Record

_MOST = 5000
_AT_ONCE = 500
_BYTES_AT_ONCE = 16 << 20


class DeadLetters:
    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def routes(self) -> Iterator[Route]:
        yield Route("GET", f"{TOPIC_PATH}/dead-letters", self.letters)
        yield Route("POST", f"{TOPIC_PATH}/dead-letters/replay", self.replay, Level.OPERATOR)

    async def letters(self, visit: Visit) -> Page | Response:
        state = await topic_state(visit)
        pattern = _pattern(visit.query.get("reason", ""))
        keys = [(state.name, each.number) for each in state.partitions]
        rows = await visit.site.calls.read(_rows, keys)
        if self._messages.masker(visit, state.name) is not None:
            # The reason often quotes the value.
            rows = [{**row, "reason": "•••"} for row in rows]
        shown = [row for row in rows if pattern is None or pattern.search(row["reason"] or "")]
        data = {
            "topic": state.name,
            "internal": state.internal,
            "letters": shown[:_AT_ONCE],
            "total": len(shown),
            "waiting": sum(not row["replayed"] and bool(row["from_topic"]) for row in shown),
        }
        more = {
            "tab": "dead-letters",
            "reason": visit.query.get("reason", ""),
            "is_cut": len(rows) >= _MOST,
        }
        return Page("messages/dead_letters.html", data, more=more)

    async def replay(self, visit: Visit) -> Page | Response:
        """Replay messages not yet replayed, to their original topics or all to one topic."""
        state = await topic_state(visit)
        if self._messages.masker(visit, state.name) is not None:
            raise HttpError(
                403, 403, f"Messages of '{state.name}' are masked: they cannot be copied elsewhere."
            )
        pattern = _pattern(visit.form.get("reason", ""))
        to = visit.form.get("to", "").strip() or None
        keys = [(state.name, each.number) for each in state.partitions]
        targets = await visit.site.calls.read(_targets, keys, pattern, to)
        for target in targets:
            visit.require(Level.OPERATOR, target)
        back = visit.url("topics", state.name, "dead-letters")
        if is_confirmed(visit):
            sent = await visit.change(
                "replay dead letters", state.name, _replay, state.name, keys, pattern, to
            )
            return visit.redirect(back, f"{sent} messages were sent back.")
        changes = [Change(target, "", f"{count} messages more") for target, count in sorted(targets.items())]
        warning = "If this is interrupted, some may be sent twice."
        return plan_page(visit, Plan(f"Replay {state.name}", changes, "Send back", back, [warning]))


def _pattern(text: str) -> re.Pattern[str] | None:
    """Match plain text, because a visitor's regular expression could run forever."""
    return re.compile(re.escape(text.strip()), re.IGNORECASE) if text.strip() else None


def _all(cluster: Cluster, keys: list[tuple[str, int]]) -> Iterator[Message]:
    starts, ends = earliest_offsets(cluster, keys), latest_offsets(cluster, keys)
    for key in keys:
        yield from read_range(cluster, key, starts[key], ends[key])


def _rows(cluster: Cluster, keys: list[tuple[str, int]]) -> list[dict[str, Any]]:
    progress = Progress(cluster, keys[0][0])
    return [_row(each, progress.is_done(each)) for each in islice(_all(cluster, keys), _MOST)]


def _chosen(
    cluster: Cluster,
    keys: list[tuple[str, int]],
    progress: Progress,
    pattern: re.Pattern[str] | None,
    to: str | None,
) -> Iterator[tuple[str, Message]]:
    for message in islice(_all(cluster, keys), _MOST):
        headers = why(message.headers)
        target = to or headers.get(TOPIC)
        if (
            target
            and not progress.is_done(message)
            and (pattern is None or pattern.search(headers.get(REASON, "")))
        ):
            yield target, message


def _targets(
    cluster: Cluster, keys: list[tuple[str, int]], pattern: re.Pattern[str] | None, to: str | None
) -> dict[str, int]:
    progress = Progress(cluster, keys[0][0])
    return dict(Counter(target for target, _ in _chosen(cluster, keys, progress, pattern, to)))


def _replay(
    cluster: Cluster, topic: str, keys: list[tuple[str, int]], pattern: re.Pattern[str] | None, to: str | None
) -> int:
    progress = Progress(cluster, topic)
    originals = Originals(cluster)
    waiting: list[tuple[str, Message, Record]] = []
    size = sent = 0

    def send() -> None:
        for target in {each for each, _, _ in waiting}:
            produce(cluster, target, [record for each, _, record in waiting if each == target])
        progress.add([message for _, message, _ in waiting])
        progress.commit()
        waiting.clear()

    for target, message in _chosen(cluster, keys, progress, pattern, to):
        record = originals.of(message)
        if record is None:
            continue  # deleted, and the letter has no copy: it stays in the list as not sent back
        waiting.append((target, message, record))
        size += len(record.value or b"")
        sent += 1
        if len(waiting) >= _AT_ONCE or size >= _BYTES_AT_ONCE:
            send()
            size = 0
    send()
    return sent


def _row(message: Message, done: bool) -> dict[str, Any]:
    headers = why(message.headers)
    return {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "from_topic": headers.get(TOPIC),
        "from_partition": headers.get(PARTITION),
        "from_offset": headers.get(OFFSET),
        "error": headers.get(ERROR),
        "reason": headers.get(REASON),
        "replayed": done,
    }
