"""Everything that the pages name exists: files and names of the table "Where is …", links, and files in the text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "where-is.md").read_text()
TABLE = PAGE[PAGE.index("<!-- where:begin -->") : PAGE.index("<!-- where:end -->")]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ROWS = re.findall(r"^\| ([^|]+?) \| `([^`]+)` \| `([^`]+)` \|$", TABLE, re.MULTILINE)


def names(tree: ast.Module | ast.ClassDef) -> dict[str, ast.AST]:
    """Return the names defined in a module or class, and the attributes that its methods set on `self`."""
    found: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found.update({target.id: node for target in node.targets if isinstance(target, ast.Name)})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
    return found


def test_the_table_has_what_people_look_for() -> None:
    assert len(ROWS) >= 40
    assert len({word for word, _, _ in ROWS}) == len(ROWS), "a word has one row"


@pytest.mark.parametrize(("word", "file", "name"), ROWS, ids=[word for word, _, _ in ROWS])
def test_what_the_table_names_is_there(word: str, file: str, name: str) -> None:
    scope: ast.AST = ast.parse((ROOT / file).read_text())
    for part in name.split("."):
        assert isinstance(scope, ast.Module | ast.ClassDef)
        assert part in names(scope), f"{word}: {file} has no {name}"
        scope = names(scope)[part]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_files_that_pages_name_exist(page: Path) -> None:
    for named in re.findall(
        r"(?<![\w/])(?:tests|ottla|bench|examples|config|scripts)/[\w/]+\.\w+", page.read_text()
    ):
        assert (ROOT / named).exists() or named.startswith("bench/results/"), named


def test_every_page_is_in_the_navigation_and_can_be_reached_from_the_index() -> None:
    docs = ROOT / "docs"
    listed = re.findall(r"^ *- ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    assert set(re.findall(r"\]\(([\w/-]+\.md)\)", (docs / "index.md").read_text())) == {*listed} - {
        "index.md"
    }
