"""Changes of a table `people`, and the expected events, the same for every database."""

from __future__ import annotations

from typing import Any

from ottla.testing.connect import SourceHarness


def ops(records: list[Any]) -> list[tuple[Any, ...]]:
    """Return the operation, key and new name of each event; a tombstone has no operation."""
    found: list[tuple[Any, ...]] = []
    for record in records:
        key = record.key.get("id") if record.key is not None else None
        if record.value is None:
            found.append((None, key))
            continue
        after = record.value.get("after")
        found.append((record.value.get("op"), key, after.get("name") if after is not None else None))
    return found


def rows_and_then_their_changes(database: Any, source: SourceHarness) -> None:
    """Fill an empty table, change it, and leave the events in `source.committed`."""
    database.run("INSERT INTO people VALUES (1, 'Ottla'), (2, 'Franz')")
    with source:
        source.run(2)
        database.run(
            "INSERT INTO people VALUES (3, 'Elli')",
            "UPDATE people SET name = 'F.' WHERE id = 2",
            "UPDATE people SET id = 9 WHERE id = 3",
            "DELETE FROM people WHERE id = 1",
        )
        source.run(9)
    assert ops(source.committed) == [
        ("r", 1, "Ottla"),
        ("r", 2, "Franz"),
        ("c", 3, "Elli"),
        ("u", 2, "F."),
        ("d", 3, None),
        (None, 3),
        ("c", 9, "Elli"),
        ("d", 1, None),
        (None, 1),
    ]


def crash_at_random_points(source: SourceHarness) -> None:
    for crash in (source.crash, source.crash_after_commit, source.restart) * 2:
        source.poll()
        crash()
