"""Every referenced template exists, and every template is referenced. Untested pages would not reveal a gap."""

from __future__ import annotations

import re
from pathlib import Path

import ottla.console

_ROOT = Path(ottla.console.__file__).parent
_NAME = re.compile(r"""["']([a-z_/]+\.html)["']""")


def test_templates_that_are_named_are_those_that_exist() -> None:
    named = {
        name
        for path in _ROOT.rglob("*")
        if path.suffix in (".py", ".html")
        for name in _NAME.findall(path.read_text())
    }
    folder = _ROOT / "templates"
    assert named == {path.relative_to(folder).as_posix() for path in folder.rglob("*.html")}


def test_a_folder_of_templates_stays_small() -> None:
    folders = [_ROOT / "templates", *(each for each in (_ROOT / "templates").iterdir() if each.is_dir())]
    assert {each.name: count for each in folders if (count := len(list(each.iterdir()))) > 20} == {}
