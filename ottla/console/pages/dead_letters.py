"""Dead letters: unreadable records of pipelines and connectors by reason, and sending them back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ottla.client.dead_letters import ERROR, OFFSET, PARTITION, REASON, TOPIC, own_headers
from ottla.console.access.roles import Level
from ottla.console.messages.dead_letters import Letter, Selection, ends_of, newest_letters, send_back, targets
from ottla.console.messages.decoding import MOST_ITEMS, Decoder
from ottla.console.pages.messages import Messages
from ottla.console.pages.topics import TOPIC as TOPIC_PATH
from ottla.console.pages.topics import topic_state
from ottla.console.web.app import Route
from ottla.console.web.paging import Change, Plan, is_confirmed, listing, plan_page
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

_MOST_KINDS = 50


class DeadLetters:
    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def routes(self) -> Iterator[Route]:
        yield Route("GET", f"{TOPIC_PATH}/dead-letters", self.letters)
        yield Route("POST", f"{TOPIC_PATH}/dead-letters/replay", self.replay, Level.OPERATOR)

    async def letters(self, visit: Visit) -> Page | Response:
        """Show the newest letters with their values, a page at a time, and the reasons of all that were read."""
        state = await topic_state(visit)
        is_masked = self._messages.masker(visit, state.name) is not None
        selection = _selection(visit.query)
        if is_masked:  # reasons often quote the value, so they are neither shown nor searched
            selection = Selection()
        keys = [(state.name, each.number) for each in state.partitions]
        found, has_older = await visit.site.calls.read(newest_letters, keys)
        shown = [each for each in found if selection.takes(each)]
        listed = listing(
            list(enumerate(shown)),
            {"size": visit.query.get("size", "25"), "page": visit.query.get("page", "1")},
            text=lambda _: "",
            columns={"newest": lambda row: row[0]},
            default="newest",
        )
        decoder = None if is_masked else Decoder(visit.site.codecs, MOST_ITEMS)
        rows = await visit.site.calls.run(_rows, [each for _, each in listed.rows], decoder)
        data = {
            "topic": state.name,
            "internal": state.internal,
            "reasons": [] if is_masked else _reasons(found),
            "letters": rows,
            "waiting": sum(_waits(each) for each in shown),
            **listed.plain(),
        }
        more = {
            "tab": "dead-letters",
            "reason": selection.text,
            "kind": selection.kind,
            "is_cut": has_older,
            "is_masked": is_masked,
            "listed": listed,
        }
        return Page("messages/dead_letters.html", data, more=more)

    async def replay(self, visit: Visit) -> Page | Response:
        """Send letters back to their original topics, or all to one topic: those of the plan and no later ones."""
        state = await topic_state(visit)
        if self._messages.masker(visit, state.name) is not None:
            raise HttpError(
                403, 403, f"Messages of '{state.name}' are masked: they cannot be copied elsewhere."
            )
        keys = [(state.name, each.number) for each in state.partitions]
        if not visit.values("upto"):
            ends = await visit.site.calls.read(ends_of, keys)
            visit.fields += [("upto", f"{number}:{end}") for number, end in ends.items()]
        selection = _selection(visit.form, visit.values("letter"), visit.values("upto"))
        planned = await visit.site.calls.read(targets, keys, selection)
        for target in planned:
            visit.require(Level.OPERATOR, target)
        back = visit.url("topics", state.name, "dead-letters")
        if is_confirmed(visit):
            sent = await visit.change(
                "replay dead letters", state.name, send_back, keys, selection, planned.__contains__
            )
            return visit.redirect(
                back, "1 message was sent back." if sent == 1 else f"{sent:,} messages were sent back."
            )
        changes = [
            Change(target, "", "1 message more" if count == 1 else f"{count:,} messages more")
            for target, count in sorted(planned.items())
        ]
        warning = (
            "If this is interrupted, some may be sent twice. Letters that arrive from now on are not sent."
        )
        return plan_page(visit, Plan(f"Replay {state.name}", changes, "Send back", back, [warning]))


def _selection(given: dict[str, str], letters: Sequence[str] = (), upto: Sequence[str] = ()) -> Selection:
    return Selection(
        given.get("reason", "").strip(),
        given.get("kind", ""),
        frozenset(_pair(each) for each in letters),
        given.get("to", "").strip() or None,
        dict(_pair(each) for each in upto),
    )


def _pair(text: str) -> tuple[int, int]:
    """Parse "partition:offset"."""
    first, _, second = text.partition(":")
    if not (first.isdecimal() and second.isdecimal() and len(text) < 40):
        raise HttpError(400, 400, f"'{text}' is not 'partition:offset'.")
    return int(first), int(second)


def _waits(letter: Letter) -> bool:
    return not letter.is_done and TOPIC in letter.facts


def _reasons(letters: Sequence[Letter]) -> list[dict[str, Any]]:
    """Group letters by their reason without numbers, the most frequent first."""
    groups: dict[str, list[Letter]] = {}
    for each in letters:
        groups.setdefault(each.kind, []).append(each)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [
        {
            "kind": kind,
            "letters": len(members),
            "waiting": sum(map(_waits, members)),
            "newest": members[0].message.timestamp,
        }
        for kind, members in ordered[:_MOST_KINDS]
    ]


def _rows(letters: Sequence[Letter], decoder: Decoder | None) -> list[dict[str, Any]]:
    return [_row(each, decoder) for each in letters]


def _row(letter: Letter, decoder: Decoder | None) -> dict[str, Any]:
    message, facts = letter.message, letter.facts
    row: dict[str, Any] = {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "from_topic": facts.get(TOPIC),
        "from_partition": facts.get(PARTITION),
        "from_offset": facts.get(OFFSET),
        "error": facts.get(ERROR),
        "reason": "•••",
        "replayed": letter.is_done,
        "key": None,
        "value": None,
        "headers": [],
    }
    if decoder is None:
        return row
    key, value = decoder.part(message.key), decoder.part(message.value)
    own = own_headers(message.headers)
    return row | {
        "reason": facts.get(REASON),
        "key": None if message.key is None else key.text,
        "value": None if message.value is None else value.text,
        "headers": [[name, None if data is None else data.decode("utf-8", "replace")] for name, data in own],
    }
