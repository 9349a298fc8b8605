"""Changes made through this console."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.console.access.roles import Level
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.paging import listing
from ottla.console.web.visit import Page, Visit
from ottla.http import Response


def routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/changes", changes, Level.ADMIN, everywhere=True)


async def changes(visit: Visit) -> Page | Response:
    entries = [each for each in visit.app.audit.last() if each["cluster"] in ("", visit.site.name)]
    newest_first = {id(each): -number for number, each in enumerate(entries)}
    listed = listing(
        entries,
        {"desc": "1", **visit.query},
        text=lambda each: f"{each['user']} {each['action']} {each['target']} {each['address']}",
        columns={"time": lambda each: newest_first[id(each)], "user": lambda each: each["user"]},
        default="time",
    )
    return Page("security/changes.html", {"changes": listed.rows, **listed.plain()}, more={"listed": listed})
