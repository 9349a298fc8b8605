from __future__ import annotations

from collections import defaultdict
from typing import Any

from .conftest import Example


def resume(plays: list[dict[str, Any]]) -> dict[str, Any]:
    last = {(play["user"], play["show"]): play for play in plays}
    return {
        f"{user}/{show}": {"user": user, "show": show, "position": play["position"]}
        for (user, show), play in last.items()
        if play["position"] < play["length"]
    }


def profiles(plays: list[dict[str, Any]], catalogue: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    seconds: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(catalogue, 0))
    seen = defaultdict(set)
    for play in plays:
        seconds[play["user"]][play["genre"]] += play["watched"]
        seen[play["user"]].add(play["show"])
    expected = {}
    for user, watched in seconds.items():
        favourite = min(catalogue, key=lambda genre: (-watched[genre], genre))
        unseen = [show for show in catalogue[favourite] if show not in seen[user]]
        following = {"next_show": unseen[0]} if unseen else {}
        expected[user] = {"user": user, **watched, "favourite": favourite, **following}
    return expected


def test_viewers_go_on_where_they_were_and_are_known_by_what_they_watch(example: Example) -> None:
    events = example.events(120, seconds=30)
    plays = [value for _, _, value, _ in events]
    for part in (slice(None, 40), slice(40, None)):
        example.send(events[part])
        example.run()
        so_far = plays[: part.stop or len(plays)]
        assert example.latest("resume") == resume(so_far)
        assert example.latest("profiles") == profiles(so_far, example.generate.CATALOGUE)
    # Somebody saw a show to its end after having stopped in it: there is nothing to resume any more.
    assert None in example.values("resume")
