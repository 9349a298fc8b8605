import pytest

from ottla.cli.values import format_timestamp, parse_duration_ms, parse_timestamp_ms


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("250ms", 250),
        ("90s", 90_000),
        ("10m", 600_000),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("PT10M", 600_000),
        ("P1DT2H", 93_600_000),
        ("pt0s", 0),
    ],
)
def test_durations(text, milliseconds):
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "10", "m", "P", "PT", "10x", "10m nonsense", "-5m"])
def test_what_is_not_a_duration(text):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_ms(text)


def test_points_in_time():
    assert parse_timestamp_ms("2023-11-14T22:13:20Z") == 1_700_000_000_000
    assert parse_timestamp_ms("2023-11-14T23:13:20.500+01:00") == 1_700_000_000_500
    assert parse_timestamp_ms("1700000000123") == 1_700_000_000_123
    assert format_timestamp(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    with pytest.raises(ValueError, match="is not a point in time"):
        parse_timestamp_ms("tomorrow")
