"""The result matrix: its location and its contents."""

from __future__ import annotations

from pathlib import Path

from ..matrix import BEGIN, END, FAILED, NO_CLIENT, PASSED, SECTIONS, Matrix, write_between_markers


def test_a_cell_says_passed_failed_lacking_or_nothing() -> None:
    matrix = Matrix(["a", "b", "c"])
    matrix.expect([("Errors", "Too large", "a"), ("Errors", "Too large", "b")])
    matrix.add(("Errors", "Too large", "a"), PASSED)
    assert "| Too large | ✓ |   | \N{EN DASH} |" in matrix.render({"a": "A 1", "b": "B 2", "c": "C"})


def test_one_failure_is_not_outweighed() -> None:
    matrix = Matrix(["a"])
    for outcome in (PASSED, FAILED, PASSED):
        matrix.add(("Errors", "Too large", "a"), outcome)
    assert "| Too large | ✗ |" in matrix.render({"a": "A"})


def test_cases_without_a_client_have_a_table_of_their_own() -> None:
    matrix = Matrix(["a"])
    matrix.add(("Versions and frames", "Unknown key", NO_CLIENT), PASSED)
    assert "| Versions and frames | bytes on a socket |\n|---|:-:|\n| Unknown key | ✓ |" in matrix.render({})


def test_only_what_is_between_the_markers_changes(tmp_path: Path) -> None:
    path = tmp_path / "compatibility.md"
    path.write_text(f"above\n{BEGIN}\nold\n{END}\nbelow\n", encoding="utf-8")
    write_between_markers(path, "new")
    assert path.read_text(encoding="utf-8") == f"above\n{BEGIN}\nnew\n{END}\nbelow\n"


def test_a_file_without_markers_gets_them_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "compatibility.md"
    path.write_text("# Compatibility\n", encoding="utf-8")
    write_between_markers(path, "table")
    assert path.read_text(encoding="utf-8") == f"# Compatibility\n\n{BEGIN}\ntable\n{END}\n"


def test_a_missing_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "docs" / "compatibility.md"
    write_between_markers(path, "table")
    assert path.read_text(encoding="utf-8") == f"{BEGIN}\ntable\n{END}\n"


def test_every_file_of_cases_has_its_section() -> None:
    for path in Path(__file__).parent.glob("test_*.py"):
        section = path.read_text().removeprefix('"""').partition(".")[0]
        assert section in SECTIONS or path.name == Path(__file__).name, path.name
