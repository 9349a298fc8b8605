"""Pages for requests that failed: inside the frame, and with the form as the visitor filled it in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ottla.client.errors import ClientError
from ottla.console.web.refill import refill
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Request, Response
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.console.web.app import App, Route

_CONFIRMATION = ("confirmed", "typed", "csrf")


async def failure_page(app: App, visit: Visit, route: Route, error: HttpError) -> Response:
    """Show the page of the form again, or else a page with the sentence alone."""
    shown = await _form_again(app, visit, route) if visit.request.method == "POST" else None
    if shown is None:
        values = {"status": error.status, "message": error.message}
        page, where, is_form = Page("error.html", values, error.status), visit, False
    else:
        (page, where), is_form = shown, True
    response = app.rendered(
        where, replace(page, status=error.status), failure=error.message if is_form else None
    )
    if is_form and isinstance(response.body, bytes):
        text = response.body.decode("utf-8", "surrogatepass")
        response.body = refill(text, visit.request.path, visit.fields).encode("utf-8", "surrogatepass")
    response.headers = {**(response.headers or {}), **error.headers}
    return response


async def _form_again(app: App, visit: Visit, route: Route) -> tuple[Page, Visit] | None:
    """Return the page with the form: the plan that was confirmed, or the page that the browser came from."""
    try:
        if visit.form.get("confirmed") == "1":
            unconfirmed = [each for each in visit.fields if each[0] not in _CONFIRMATION]
            again = replace(visit, fields=unconfirmed)
            result = await route.handler(again)
            return (result, again) if isinstance(result, Page) else None
        found = _origin(visit.request)
        return None if found is None else await app.page_at(visit, found)
    except (HttpError, ClientError, KafkaError):
        return None


def _origin(request: Request) -> str | None:
    """Return path and query of the page that sent the form, if it is one of ours."""
    parts = urlsplit(request.headers.get("referer", ""))
    if not parts.path or parts.netloc != request.headers.get("host", ""):
        return None
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
