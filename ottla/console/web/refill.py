"""Put what a visitor typed back into a form of a rendered page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from html.parser import HTMLParser
from itertools import accumulate
from urllib.parse import urlsplit

_NEVER = frozenset({"hidden", "password", "file", "submit", "button", "image", "reset"})
_TICKED = frozenset({"checkbox", "radio"})


@dataclass(slots=True)
class _Control:
    """`start` and `end` delimit the start tag, or the text of a textarea."""

    kind: str  # type of an input, "textarea" or "option"
    name: str
    attributes: dict[str, str | None]
    start: int
    end: int


@dataclass(slots=True)
class _Form:
    action: str
    controls: list[_Control] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self._lines = [0, *accumulate(len(line) for line in page.splitlines(keepends=True))]
        self.forms: list[_Form] = []
        self._form: _Form | None = None
        self._select = ""
        self._textarea: tuple[str, int] | None = None
        self.feed(page)

    def _at(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        start = self._at()
        end = start + len(self.get_starttag_text() or "")
        if tag == "form":
            self._form = (
                _Form(given.get("action") or "") if (given.get("method") or "").lower() == "post" else None
            )
            if self._form is not None:
                self.forms.append(self._form)
        elif self._form is None:
            return
        elif tag == "select":
            self._select = given.get("name") or ""
        elif tag == "option":
            self._form.controls.append(_Control("option", self._select, given, start, end))
        elif tag == "textarea":
            self._textarea = given.get("name") or "", end
        elif tag == "input":
            kind = (given.get("type") or "text").lower()
            self._form.controls.append(_Control(kind, given.get("name") or "", given, start, end))

    def handle_data(self, data: str) -> None:
        last = self._form.controls[-1] if self._form is not None and self._form.controls else None
        if last is not None and last.kind == "option":
            last.attributes.setdefault("value", unescape(data).strip())

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "textarea" and self._form is not None and self._textarea is not None:
            name, start = self._textarea
            self._form.controls.append(_Control("textarea", name, {}, start, self._at()))
            self._textarea = None


def refill(page: str, path: str, fields: Sequence[tuple[str, str]]) -> str:
    """Return the page with the fields in the form that posts to this path. Passwords stay empty."""
    given: dict[str, list[str]] = {}
    for name, value in fields:
        given.setdefault(name, []).append(value)
    forms = [each for each in _Reader(page).forms if urlsplit(each.action).path in (path, "")]
    if not forms:
        return page
    form = max(forms, key=lambda each: sum(_agrees(control, given) for control in each.controls))
    pieces, done = [], 0
    for control in form.controls:
        new = _filled(control, given)
        if new is not None:
            pieces += [page[done : control.start], new]
            done = control.end
    return "".join([*pieces, page[done:]])


def _agrees(control: _Control, given: dict[str, list[str]]) -> bool:
    if control.kind == "hidden":
        return control.attributes.get("value") in given.get(control.name, ())
    return control.name in given


def _filled(control: _Control, given: dict[str, list[str]]) -> str | None:
    """Return the new text of a control, or None to leave it as it is."""
    values = given.get(control.name)
    if control.kind in _NEVER or not control.name:
        return None
    if control.kind in _TICKED:
        is_on = (control.attributes.get("value") or "on") in (values or ())
        return _tag("input", control.attributes, "checked", is_on)
    if values is None:
        return None
    if control.kind == "option":
        return _tag("option", control.attributes, "selected", control.attributes.get("value") in values)
    # A control of a name takes the next value.
    value = values.pop(0) if len(values) > 1 else values[0]
    if control.kind == "textarea":
        return "\n" + escape(value)
    return _tag("input", {**control.attributes, "value": value})


def _tag(name: str, attributes: dict[str, str | None], flag: str | None = None, is_on: bool = False) -> str:
    kept = {key: value for key, value in attributes.items() if key != flag}
    if flag is not None and is_on:
        kept[flag] = None
    parts = [key if value is None else f'{key}="{escape(value)}"' for key, value in kept.items()]
    return f"<{' '.join([name, *parts])}>"
