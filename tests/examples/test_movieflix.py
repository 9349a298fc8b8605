from __future__ import annotations

from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

from .conftest import Example

Plays = list[dict[str, Any]]
Catalogue = dict[str, tuple[str, ...]]


def resume_positions(plays: Plays) -> dict[str, Any]:
    last = {(play["user"], play["show"]): play for play in plays}
    return {
        f"{user}/{show}": {"user": user, "show": show, "position": play["position"]}
        for (user, show), play in last.items()
        if play["position"] < play["length"]
    }


def seconds_per_genre(plays: Plays, catalogue: Catalogue) -> dict[str, dict[str, int]]:
    seconds: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(catalogue, 0))
    for play in plays:
        seconds[play["user"]][play["genre"]] += play["watched"]
    return dict(seconds)


def favourites(watched: dict[str, int]) -> list[str]:
    return sorted(watched, key=lambda genre: (-watched[genre], genre))


def profiles(plays: Plays, catalogue: Catalogue) -> dict[str, Any]:
    return {
        user: {"user": user, **watched, "favourite": favourites(watched)[0]}
        for user, watched in seconds_per_genre(plays, catalogue).items()
    }


def recommendations(plays: Plays, catalogue: Catalogue) -> dict[str, Any]:
    expected = {}
    for user, watched in seconds_per_genre(plays, catalogue).items():
        begun = {play["show"] for play in plays if play["user"] == user}
        shows = [(genre, show) for genre in favourites(watched) for show in catalogue[genre]]
        genre, show = next((each for each in shows if each[1] not in begun), shows[0])
        expected[user] = {"user": user, "next_show": show, "genre": genre}
    return expected


def hours(seconds: int) -> float:
    """Round like SQL, half up."""
    return float((Decimal(seconds) / 3600).quantize(Decimal("0.01"), ROUND_HALF_UP))


def test_viewers_go_on_where_they_were_and_have_a_next_show(example: Example, tmp_path: Path) -> None:
    example.set("spark.example.store", str(tmp_path / "store"))
    catalogue = example.generate.CATALOGUE
    assert catalogue == example.module("pipeline").CATALOGUE
    # A minute of events, sent like in the README.
    events = example.events(300, seconds=0.2)
    plays = [value for _, _, value, _ in events]
    for part in (slice(None, 100), slice(100, None)):
        example.send(events[part])
        example.run()
        so_far = plays[: part.stop or len(plays)]
        assert example.latest("resume_positions") == resume_positions(so_far)
        assert example.latest("profiles") == profiles(so_far, catalogue)
        assert example.latest("recommendations") == recommendations(so_far, catalogue)
    # A viewer paused a show and finished it later, so there is nothing left to resume.
    assert None in example.values("resume_positions")
    offered = example.latest("recommendations")
    assert set(offered) == set(example.generate.USERS)
    begun = {(play["user"], play["show"]) for play in plays}
    assert not begun & {(user, each["next_show"]) for user, each in offered.items()}

    # The analysts' topic holds every event.
    store = example.spark.read.parquet(str(tmp_path / "store"))
    assert store.count() == len(plays)
    asked = {
        row.show: (row.viewers, row.hours)
        for row in example.module("pipeline").views_per_show(store).collect()
    }
    assert asked == {
        show: (
            len({play["user"] for play in plays if play["show"] == show}),
            hours(sum(play["watched"] for play in plays if play["show"] == show)),
        )
        for show in {play["show"] for play in plays}
    }


def test_who_has_begun_everything_still_has_a_next_show(example: Example) -> None:
    catalogue = example.generate.CATALOGUE
    rows = [
        ("ada", show, genre, 30 + place)
        for genre, shows in catalogue.items()
        for place, show in enumerate(shows)
    ]
    plays = example.spark.createDataFrame(rows, "user STRING, show STRING, genre STRING, watched INT")
    [row] = example.module("pipeline").recommendations(plays).collect()
    assert tuple(row) == ("ada", "Office Hours", "comedy")
