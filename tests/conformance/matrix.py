"""The result table by case and client, as Markdown between two markers of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

BEGIN = "<!-- matrix:begin -->"
END = "<!-- matrix:end -->"

PASSED, FAILED, LACKING, NOT_RUN = "✓", "✗", "\N{EN DASH}", " "

# The column for cases without a client: bytes on a socket.
NO_CLIENT = ""

# In reading order rather than file order.
SECTIONS = (
    "Produce and consume",
    "Positions and offsets",
    "Consumer groups",
    "Consumer groups with the consumer protocol (KIP-848)",
    "Share groups (KIP-932)",
    "Transactions",
    "One client writes, another reads",
    "Administration",
    "Errors",
    "Security",
    "Versions and frames",
)

# Section, case, client.
Cell = tuple[str, str, str]


class Matrix:
    """Results so far, in the order of the catalogue. A cell with several results shows the worst."""

    def __init__(self, clients: Sequence[str]) -> None:
        self._clients = clients
        self._outcomes: dict[Cell, str] = {}

    def expect(self, cells: Iterable[Cell]) -> None:
        for cell in cells:
            self._outcomes.setdefault(cell, NOT_RUN)

    def add(self, cell: Cell, outcome: str) -> None:
        if self._outcomes.get(cell) != FAILED:
            self._outcomes[cell] = outcome

    def render(self, titles: Mapping[str, str]) -> str:
        lines: list[str] = []
        for section in sorted({section for section, _, _ in self._outcomes}, key=SECTIONS.index):
            cases = dict.fromkeys(case for found, case, _ in self._outcomes if found == section)
            rows = [
                self._row(section, case) for case in cases if (section, case, NO_CLIENT) not in self._outcomes
            ]
            if rows:
                lines += [
                    "",
                    f"| {section} | " + " | ".join(titles[client] for client in self._clients) + " |",
                ]
                lines += ["|---|" + ":-:|" * len(self._clients), *rows]
            rows = [
                f"| {case} | {self._outcomes[section, case, NO_CLIENT]} |"
                for case in cases
                if (section, case, NO_CLIENT) in self._outcomes
            ]
            if rows:
                lines += ["", f"| {section} | bytes on a socket |", "|---|:-:|", *rows]
        lines += ["", f"{PASSED} works · {FAILED} fails · blank: not run in this round."]
        lines += [f"{LACKING} not tried: the client has no such call or option, hides the answer, lacks a"]
        lines += ["package for it, or the suite has no way to ask it."]
        return "\n".join(lines).strip()

    def _row(self, section: str, case: str) -> str:
        cells = (self._outcomes.get((section, case, client), LACKING) for client in self._clients)
        return f"| {case} | {' | '.join(cells)} |"


def write_between_markers(path: Path, table: str) -> None:
    """Replace the text between the markers, or append the markers to a file without them."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    block = f"{BEGIN}\n{table}\n{END}"
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and end:
        text = before + block + after
    else:
        text = f"{text.rstrip()}\n\n{block}\n".lstrip()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
