"""Random records through fixed-size windows, compared with a model of Kafka Streams' rules.

A window takes a record if it ends after the latest time so far, less the grace period. The row of a window has the
latest time of its records.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.sql.cases.case import Case, In, Out

_COLUMNS = "COUNT(*) AS n, SUM(v) AS s, MIN(v) AS lo, COLLECT_LIST(v) AS vs"
_Values = list[int | None]


def _windows(time: int, size: int, advance: int) -> Iterator[int]:
    """Yield the starts of the windows that contain the time, in order."""
    first = max(0, (time - size + advance) // advance * advance)
    return iter(range(first, time + 1, advance))


def _case(seed: int, size: int, advance: int, grace: int, *, having: bool) -> Case:
    chance = random.Random(seed)
    inputs, outputs = [], []
    held: dict[tuple[str, int], tuple[_Values, int]] = {}
    latest = now = 0
    for _ in range(14):
        now += chance.randint(0, 6)
        time = max(0, now - chance.choice([0, 0, 1, 4, 9, 20]))
        key = chance.choice(["a", "b", None])
        value = chance.choice([None, *range(1, 9)])
        inputs.append(In("s", chance.choice(["x", "y"]), {"g": key, "v": value}, time))
        if key is None:  # leaves no trace, not even in the time
            continue
        latest = max(latest, time)
        for start in _windows(time, size, advance):
            if start + size <= latest - grace:
                continue
            before, at = held.get((key, start), ([], 0))
            values, at = [*before, value], max(at, time)
            held[key, start] = values, at
            known = [each for each in values if each is not None]
            row = {"N": len(values), "S": sum(known), "LO": min(known, default=None), "VS": values}
            if not having or len(values) > 1:
                outputs.append(Out("O", key, row, at, (start, start + size)))
    kind = "TUMBLING" if size == advance else "HOPPING"
    by = "" if size == advance else f", ADVANCE BY {advance} MILLISECONDS"
    rest = " HAVING COUNT(*) > 1" if having else ""
    return Case(
        f"{kind}, seed {seed}",
        "CREATE STREAM s (k STRING KEY, g STRING, v INT) WITH (kafka_topic='s', partitions=1);"
        f"CREATE TABLE o AS SELECT g, {_COLUMNS} FROM s "
        f"WINDOW {kind} (SIZE {size} MILLISECONDS{by}, GRACE PERIOD {grace} MILLISECONDS) GROUP BY g{rest};",
        inputs,
        outputs,
        grouped="windows beside a model",
    )


CASES = [
    _case(seed, size, advance, grace, having=seed % 4 == 3)
    for seed, (size, advance, grace) in enumerate(
        [(10, 10, 0), (10, 10, 5), (5, 5, 3), (20, 20, 2), (10, 5, 0), (10, 5, 4), (9, 3, 2), (12, 5, 6)] * 3
    )
]
