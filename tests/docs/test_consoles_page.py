"""Each of our cells in the comparison of consoles names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_claim_of_ours_names_a_test() -> None:
    page = (ROOT / "docs" / "reference" / "consoles.md").read_text()
    rows = [line.split("|")[2].strip() for line in page.splitlines() if line.startswith("| ")][1:]
    claims = [cell for cell in rows if not cell.startswith("**no**")]
    assert len(claims) > 25
    for cell in claims:
        named = re.search(r"`(test_\w+\.py)(?:::(test_\w+))?`", cell)
        assert named, cell
        text = (ROOT / "tests" / "console" / named[1]).read_text()
        assert named[2] is None or f"def {named[2]}(" in text, cell
