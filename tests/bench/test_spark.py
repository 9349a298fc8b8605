import io
import json

import pytest

pytest.importorskip("pyspark")

from rich.console import Console

from bench.rows import spark_data
from bench.rows.spark_rows import Experiment, Figure, every_experiment
from bench.spark import Measured, last_line, render, run

FAST = Figure("fast", target=2)
LATE = Figure("late", "ms", "lower", 1)


def line_of(text, name):
    return next(line.split() for line in text.splitlines() if line.strip().startswith(name))


def rendered(rows):
    out = io.StringIO()
    Console(file=out, width=120).print(render(rows, "title"))
    return out.getvalue()


def test_the_table_shows_the_best_of_each_the_ratio_and_the_target():
    fast = Measured(FAST, {"ottla": [1, 3], "kafka": [1.5, 1]})
    late = Measured(LATE, {"ottla": [80, 50], "kafka": [100]})
    text = rendered([fast, late])
    assert line_of(text, "fast") == ["fast", "M", "rows/s", "3.00", "1.50", "2.00", "2"]
    assert line_of(text, "late") == ["late", "ms", "50.0", "100", "2.00", "1"]


def test_the_first_round_warms_up_and_a_failure_ends_one_side_only():
    calls = []

    def measure(bench, connector):
        calls.append(connector)
        if connector == "kafka":
            raise RuntimeError("first line\nottla.x.Error: what is wrong")
        return {"fast": len(calls)}

    [row] = run([Experiment((FAST,), measure)], None, 2, Console(file=io.StringIO()))
    assert calls == ["kafka", "ottla", "ottla", "ottla"]
    assert row.values == {"ottla": [3, 4]}
    assert row.failures == {"kafka": "ottla.x.Error: what is wrong"}
    assert line_of(rendered([row]), "fast")[-4:] == ["4.00", "failed", "-", "2"]


def test_what_cannot_be_measured_yet_is_said():
    [row] = run(
        [Experiment((FAST,), lambda *_: {}, lambda: "there is no such option")], None, 0, Console(quiet=True)
    )
    assert row.failures == {"ottla": "there is no such option"}


def test_the_last_line_of_an_error_without_lines_is_its_name():
    assert last_line(ValueError()) == "ValueError"


def test_rows_have_names_of_their_own():
    names = [figure.name for experiment in every_experiment() for figure in experiment.figures]
    assert len(names) == len(set(names)) >= 17


@pytest.mark.parametrize("size", [100, 1000])
def test_values_are_json_of_one_size(size):
    values = spark_data.values(size)
    assert {len(value) for value in values} == {size}
    assert json.loads(values[7])["tag"] in spark_data.TAGS
