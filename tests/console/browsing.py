"""A visitor that behaves like a browser without scripts: cookies, forms with hidden fields, redirects."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from html import unescape
from html.parser import HTMLParser
from types import TracebackType
from typing import Any, Self

import httpx

from ottla.client.cluster import Cluster
from ottla.client.produce import produce
from ottla.client.settings import Settings
from ottla.protocol.record_format import Record
from ottla.testing import Broker


class Form:
    def __init__(self, attributes: dict[str, str | None]) -> None:
        self.action = attributes.get("action") or ""
        self.method = (attributes.get("method") or "get").lower()
        self.fields: dict[str, str] = {}
        self.page = ""  # URL of the page with the form


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._open: Form | None = None
        self._select: str | None = None
        self._textarea: str | None = None
        self._option = False  # its text is its value

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name")
        if tag == "form":
            self._open = Form(given)
            self.forms.append(self._open)
        elif tag == "option" and self._open is not None and self._select is not None:
            if "selected" in given or self._select not in self._open.fields:
                self._open.fields[self._select] = given.get("value") or ""
                self._option = "value" not in given
        elif self._open is None or not name:
            return
        elif tag == "input":
            kind = given.get("type", "text")
            if kind in ("checkbox", "radio") and "checked" not in given:
                return
            self._open.fields[name] = given.get("value") or ""
        elif tag == "select":
            self._select = name
        elif tag == "textarea":
            self._textarea = name
            self._open.fields[name] = ""

    def handle_data(self, data: str) -> None:
        if self._open is not None and self._select is not None and self._option:
            self._open.fields[self._select] = data.strip()
            self._option = False
        if self._open is not None and self._textarea is not None:
            self._open.fields[self._textarea] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None
        elif tag == "select":
            self._select = None
        elif tag == "textarea":
            self._textarea = None


class Visitor:
    def __init__(self, url: str, **options: Any) -> None:
        self.http = httpx.Client(
            base_url=url, timeout=30, headers={"Accept": "text/html,*/*"}, follow_redirects=True, **options
        )
        self.cluster = "/clusters/local"

    def get(self, path: str, **query: Any) -> httpx.Response:
        """Get a page of the cluster, or any page if the path starts with a slash."""
        where = path if path.startswith("/") else f"{self.cluster}/{path}"
        return self.http.get(where, params=query or None)

    def json(self, path: str, **query: Any) -> Any:
        page, _, asked = path.partition("?")
        answer = self.get(f"{page}.json" + (f"?{asked}" if asked else ""), **query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def form(self, page: httpx.Response, action: str) -> Form:
        """Return the form whose action ends with this text."""
        parser = _Forms()
        parser.feed(page.text)
        found = [each for each in parser.forms if each.action.partition("?")[0].endswith(action)]
        assert found, f"There is no form for {action} among {[each.action for each in parser.forms]}"
        found[0].page = str(page.url)
        return found[0]

    def submit(self, path: str, action: str, **fields: Any) -> httpx.Response:
        """Fill in a form of a page and send it."""
        page = self.get(path)
        assert page.status_code == 200, text_of(page)
        return self.send(self.form(page, action), **fields)

    def send(self, form: Form, **fields: Any) -> httpx.Response:
        given = {**form.fields, **fields}
        data = {name: each for name, each in given.items() if each is not None}
        return self.http.post(form.action, data=data, headers={"Referer": form.page})

    def confirm(self, plan: httpx.Response, action: str, **fields: Any) -> httpx.Response:
        """Confirm a plan."""
        assert "This is what would happen" in plan.text, text_of(plan)
        return self.send(self.form(plan, action), **fields)

    def token(self) -> str:
        page = self.get("topics")
        found = re.search(r'data-csrf="([^"]+)"', page.text)
        assert found
        return found.group(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()


def write(broker: Broker, topic: str, values: Sequence[bytes | None], **options: Any) -> None:
    """Write one batch, so that thousands of records are quick."""
    partition = options.pop("partition", None)
    now = round(time.time() * 1000)
    records = [Record(0, options.get("timestamp", now), options.get("key"), value) for value in values]
    cluster = Cluster(Settings.from_properties({"bootstrap.servers": broker.bootstrap_servers}))
    try:
        produce(cluster, topic, records, partition)
    finally:
        cluster.close()


def text_of(page: httpx.Response) -> str:
    """Return the visible text, without tags."""
    plain = re.sub(r"<[^>]+>", " ", page.text)
    return unescape(re.sub(r"\s+", " ", plain))
