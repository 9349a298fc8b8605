import io
import json

from rich.console import Console

from bench.measuring.driver import failures, in_alternation, in_whole_turns, run
from bench.measuring.experiment import Experiment, Row, Scale, last_line, matches
from bench.measuring.plan import chosen_experiments, every_experiment
from bench.measuring.table import Measured, render
from bench.peers.brokers import Contestant
from bench.rows.throughput import fetched_per_second, produced_per_second

FAST = Row("fast", "MB/s")
LATE = Row("late", "µs", "lower")


def contestant(name):
    return Contestant(name, launch=None)


def rendered(rows):
    out = io.StringIO()
    Console(file=out, width=120).print(render(rows, "title"))
    return out.getvalue()


def line_of(text, name):
    return next(line.split() for line in text.splitlines() if line.strip().startswith(name))


def test_the_table_shows_the_best_of_each_and_the_ratio():
    fast = Measured(FAST, {"Ottla": [100, 300], "Apache Kafka": [150, 120], "limit": [1_000]})
    late = Measured(LATE, {"Ottla": [80, 50], "Apache Kafka": [100]})
    text = rendered([fast, late])
    assert line_of(text, "fast") == ["fast", "MB/s", "300", "150", "2.00", "1,000"]
    assert line_of(text, "late") == ["late", "µs", "50.0", "100", "2.00", "-"]


def test_a_failure_is_shown_where_no_value_is():
    text = rendered([Measured(FAST, {"Apache Kafka": [1]}, {"Ottla": "it broke"})])
    assert line_of(text, "fast")[2:5] == ["failed", "1.00", "-"]


def test_brokers_alternate_and_the_order_turns_round():
    order = []

    def measure(who, scale):
        order.append(who.name)
        return {"fast": len(order)}

    entered = [contestant("Ottla"), contestant("Apache Kafka")]
    quiet = Console(file=io.StringIO())
    experiments = [Experiment((FAST,), measure)]
    turns = in_alternation(experiments, entered, 2, limit=False)
    (row,) = run(experiments, turns, Scale.quick(), console=quiet)
    assert order == ["Ottla", "Apache Kafka", "Apache Kafka", "Ottla"]
    assert row.values == {"Ottla": [1, 4], "Apache Kafka": [2, 3]}
    assert json.loads(json.dumps(row.as_json()))["ratio"] == 4 / 3


def test_clusters_take_whole_turns_one_after_another():
    fast, late = Experiment((FAST,), None), Experiment((LATE,), None, only="Ottla")
    entered = ours, theirs = [contestant("Ottla"), contestant("Apache Kafka")]
    assert list(in_whole_turns([fast, late], entered, 2, limit=False)) == [
        (fast, ours, False),
        (late, ours, True),
        (fast, theirs, True),
        (fast, theirs, True),
        (fast, ours, False),
        (late, ours, True),
    ]


def test_a_broker_that_fails_a_row_is_not_asked_again_and_the_others_go_on():
    asked = []

    def measure(who, scale):
        asked.append(who.name)
        if who.name == "Ottla":
            raise RuntimeError("no such API")
        return {"fast": 1.0}

    entered = [contestant("Ottla"), contestant("Apache Kafka")]
    quiet = Console(file=io.StringIO())
    experiments = [Experiment((FAST,), measure)]
    turns = in_alternation(experiments, entered, 3, limit=False)
    (row,) = run(experiments, turns, Scale.quick(), console=quiet)
    assert asked.count("Ottla") == 1
    assert row.failures == {"Ottla": "no such API"}
    assert row.values == {"Apache Kafka": [1.0, 1.0, 1.0]}


def test_the_reason_of_a_failure_is_told_once_and_without_librdkafkas_log():
    assert last_line("Traceback\nKafkaError: no\n%6|179|BGQUEUE| purging\n") == "KafkaError: no"
    assert last_line("") == "it said nothing"
    rows = [Measured(row, {}, {"Ottla": "no such API"}) for row in (FAST, LATE)]
    assert failures(rows) == ["Ottla, fast: no such API"]


def test_rows_have_names_of_their_own():
    names = [row.name for experiment in every_experiment(Scale()) for row in experiment.rows]
    assert len(names) == len(set(names))


def test_rows_are_chosen_by_a_part_of_their_name_or_by_a_shell_pattern():
    assert matches("produce 1 KB, 16 partitions", ["1 kb"])
    assert matches("produce 1 KB, 16 partitions", ["produce*partitions"])
    assert not matches("produce 1 KB, 16 partitions", ["consume"])
    assert matches("anything", [])
    assert len(chosen_experiments(Scale(), ["5,000 connections"])) == 1


def test_the_perf_tools_summaries_are_read():
    said = (
        "40211 records sent, 8042.2 records/sec (7.67 MB/sec), 1.0 ms avg latency, 9.0 ms max latency.\n"
        "100000 records sent, 81967.2 records/sec (78.17 MB/sec), 217.14 ms avg latency, 417.00 ms max\n"
    )
    assert produced_per_second(said) == 81967.2
    said = (
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
        "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
        "2026-01-01 00:00:00:000, 2026-01-01 00:00:01:000, 95.3, 95.3, 100000, 100000.0, "
        "400, 600, 158.9, 166666.7\n"
    )
    assert fetched_per_second(said) == 166666.7
