"""docs/explanation/architecture.md names the files through which a produce with acks=all passes: twenty at most."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ottla.broker.network.connection import Connection
from ottla.cluster.partitions.leader_state import LeaderState
from tests.cluster.replicated import brokers

ROOT = Path(__file__).parents[3]
_PRODUCE = b"\x00\x00"  # API key, after the length of the frame


class Walk:
    """Notes the files whose functions run in the traced calls."""

    def __init__(self) -> None:
        self.files: set[str] = set()

    def traced(self, call: Callable[..., Any], *arguments: Any) -> Any:
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            return call(*arguments)
        finally:
            sys.setprofile(before)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT / "ottla"):
            self.files.add(str(path.relative_to(ROOT)))


async def test_a_replicated_produce_passes_the_documented_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = Walk()
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")  # imports and generates code
        dispatcher = cluster.servers[0].broker.dispatcher
        take_frames, fetched, complete = (
            Connection._take_frames,
            LeaderState.fetched,
            Connection._complete_scheduled,
        )

        def receive(self: Connection, view: memoryview, end: int) -> None:
            is_produce = self._dispatcher is dispatcher and bytes(view[4:6]) == _PRODUCE
            walk.traced(take_frames, self, view, end) if is_produce else take_frames(self, view, end)

        def answer(self: Connection) -> None:
            is_leader = self._dispatcher is dispatcher
            walk.traced(complete, self) if is_leader else complete(self)

        def confirm(self: LeaderState, *arguments: Any) -> None:
            walk.traced(fetched, self, *arguments)

        monkeypatch.setattr(Connection, "_take_frames", receive)
        monkeypatch.setattr(Connection, "_complete_scheduled", answer)
        monkeypatch.setattr(LeaderState, "fetched", confirm)
        assert (await cluster.produce(0, "b")).base_offset == 1
        monkeypatch.undo()
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    section = page.partition("## The life of a replicated produce")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`(ottla/[\w/]+\.py)`", section))
    assert len(documented) <= 20
    assert walk.files <= documented, walk.files - documented
