from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from .conftest import Example

Views = dict[tuple[str, str], tuple[int, int]]


def expected(events: list[Any]) -> Views:
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for _, _, click, at in events:
        found = sums[click["page"], at.date().isoformat()]
        found[0] += 1
        found[1] += click["milliseconds"]
    return {place: (views, milliseconds) for place, (views, milliseconds) in sums.items()}


def test_the_speed_layer_and_the_batch_layer_give_the_same_answer(example: Example, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    example.set("spark.example.lake", lake)
    events = example.events(300, seconds=600)
    for part in (events[:200], events[200:]):
        example.send(part)
        example.run()

    speed = {
        (value["page"], value["day"]): (value["views"], value["milliseconds"])
        for value in example.latest("page-views").values()
    }
    rows = example.module("pipeline").batch_layer(example.spark, lake).collect()
    batch = {(row.page, row.day.isoformat()): (row.views, row.milliseconds) for row in rows}
    assert speed == batch == expected(events)

    days = {path.name for path in Path(lake).glob("day=*")}
    assert days == {f"day={at.date()}" for *_, at in events}
    assert example.spark.read.parquet(lake).select("id").distinct().count() == len(events)
