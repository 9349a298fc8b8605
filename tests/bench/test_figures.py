import pytest

from bench.measuring.figures import advantage, best, percentile, percentiles_us, readable


def test_percentiles_are_values_that_were_measured():
    values = list(range(1, 101))
    assert percentile(values, 50) == 50
    assert percentile(values, 99) == 99
    assert percentile(values, 100) == 100
    assert percentile([7], 99) == 7
    assert percentile([3, 1, 2], 0) == 1


def test_a_percentile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_nanoseconds_become_microseconds():
    assert percentiles_us([1_000, 2_000, 3_000]) == {"p50_us": 2.0, "p99_us": 3.0}


def test_the_best_value_depends_on_which_way_the_unit_points():
    assert best([1, 3, 2], "higher") == 3
    assert best([1, 3, 2], "lower") == 1
    assert best([], "lower") is None


def test_an_advantage_above_one_is_always_better_than_kafka():
    assert advantage(200, 100, "higher") == 2
    assert advantage(50, 100, "lower") == 2
    assert advantage(None, 100, "higher") is None
    assert advantage(0, 100, "lower") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.01234, "0.0123"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (99.99, "100.0"),
        (123.4, "123"),
        (12_345.6, "12,346"),
    ],
)
def test_figures_have_three_digits(value, text):
    assert readable(value) == text
