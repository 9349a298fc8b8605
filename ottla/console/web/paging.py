"""Pages of long tables, and plans of changes for confirmation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError

# Filter, sort and paginate lists. Pure, and on the server, so that ten thousand rows cost the browser nothing.

T = TypeVar("T")

_SIZES = (25, 50, 100, 200)


@dataclass(frozen=True)
class Listing(Generic[T]):
    rows: list[T]
    total: int  # after filtering
    page: int
    pages: int
    size: int
    sort: str
    descending: bool
    query: str
    _others: tuple[tuple[str, str], ...] = ()

    def link(self, **changes: object) -> str:
        """Return a link to the same list with another order or page."""
        given = {
            "q": self.query,
            "sort": self.sort,
            "desc": "1" if self.descending else "",
            "size": "" if self.size == 50 else self.size,
            "page": "",
            **dict(self._others),
            **changes,
        }
        return "?" + urlencode({name: value for name, value in given.items() if value not in ("", None)})

    def sorted_by(self, column: str) -> str:
        """Return the link of a column head: a second click reverses the order."""
        return self.link(sort=column, desc="1" if self.sort == column and not self.descending else "")

    def order(self, column: str) -> str:
        if self.sort != column:
            return "none"
        return "descending" if self.descending else "ascending"

    def plain(self) -> dict[str, Any]:
        return {"total": self.total, "page": self.page, "pages": self.pages, "size": self.size}


def listing(
    rows: Iterable[T],
    query: Mapping[str, str],
    *,
    text: Callable[[T], str],
    columns: Mapping[str, Callable[[T], Any]],
    default: str,
    others: Sequence[str] = (),
) -> Listing[T]:
    """`query` has q, sort, desc, page and size; `others` are parameters kept in links."""
    wanted = query.get("q", "").strip()
    words = wanted.lower().split()
    found = list(rows)
    for word in words:
        found = [row for row in found if word in text(row).lower()]
    sort = query.get("sort", default)
    if sort not in columns:
        sort = default
    descending = query.get("desc") == "1"
    key = columns[sort]
    found.sort(key=text)
    keys = {id(row): key(row) for row in found}
    # None sorts last in both directions.
    known = [row for row in found if keys[id(row)] is not None]
    known.sort(key=lambda row: keys[id(row)], reverse=descending)
    found = known + [row for row in found if keys[id(row)] is None]
    size = _number(query.get("size"), 50)
    size = size if size in _SIZES else 50
    pages = max(1, -(-len(found) // size))
    page = min(max(_number(query.get("page"), 1), 1), pages)
    kept = tuple((name, query[name]) for name in others if query.get(name))
    return Listing(
        found[(page - 1) * size : page * size], len(found), page, pages, size, sort, descending, wanted, kept
    )


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else default


# Plans of changes, shown before execution: the same form comes back with `confirmed`.


@dataclass(frozen=True)
class Change:
    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Plan:
    title: str
    changes: Sequence[Change]
    confirm: str  # text of the button
    cancel: str  # return page
    warnings: Sequence[str] = ()
    is_dangerous: bool = False
    typed: str | None = None  # text to type, to prevent mistakes
    asks_password: bool = False  # a page holds no password, so it is typed again


def is_confirmed(visit: Visit, typed: str | None = None) -> bool:
    """Raises HttpError 400 if another text was typed."""
    if visit.form.get("confirmed") != "1":
        return False
    if typed is not None and visit.form.get("typed", "").strip() != typed:
        raise HttpError(400, 400, f"Nothing was changed: '{typed}' has to be typed to confirm it.")
    return True


def plan_page(visit: Visit, plan: Plan) -> Page:
    fields = [(name, value) for name, value in visit.fields if name not in ("csrf", "confirmed", "typed")]
    return Page("plan.html", {"plan": plan}, more={"fields": fields, "action": visit.request.path})
