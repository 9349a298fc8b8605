"""Plans of changes, shown before execution: the same form comes back with `confirmed`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError


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
