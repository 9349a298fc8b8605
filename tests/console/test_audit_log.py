"""The audit log on a full disk: the console refuses actions that it cannot log."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.console.access.audit_log import AuditLog, CannotLog
from ottla.http.background import InBackground
from tests.console.browsing import Visitor, text_of
from tests.console.test_access import ids, path_of, routes

ENTRY: dict[str, Any] = {
    "user": "ann",
    "address": "here",
    "cluster": "local",
    "action": "try",
    "outcome": "done",
}


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk of 512 kB."""
    folder = tmp_path_factory.mktemp("disk")
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder], check=False)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def fill(disk: Path) -> Iterator[Callable[[], None]]:
    """Fill the disk to the last byte until the test ends."""
    ballast = disk / "ballast"

    def until_full() -> None:
        with ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(512))
            except OSError:
                pass

    yield until_full
    ballast.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def console(open_console: Callable[..., InBackground], disk: Path) -> InBackground:
    return open_console(audit_file=disk / "audit.jsonl")


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_nothing_is_changed_while_the_disk_is_full(
    disk: Path, fill: Callable[[], None], visitor: Visitor
) -> None:
    (disk / "audit.jsonl.reserve").unlink(missing_ok=True)
    fill()
    token = visitor.token()
    form = {"csrf": token, "confirmed": "1", "name": "unlogged", "partitions": "1"}
    answer = visitor.http.post("/clusters/local/new-topic", data=form)
    assert answer.status_code == 503
    said = text_of(answer)
    assert "No space left on device" in said
    assert "nothing was changed" in said
    assert "unlogged" not in [row["name"] for row in visitor.json("topics")["topics"]]
    assert visitor.get("topics").status_code == 200  # reads are not logged
    (disk / "ballast").unlink()
    assert visitor.http.post("/clusters/local/new-topic", data=form).status_code == 200
    assert lines(disk / "audit.jsonl")[-1]["target"] == "unlogged"


@pytest.mark.parametrize(
    "route", [each for each in routes() if each.method == "POST" and each.changes], ids=ids
)
def test_no_request_that_changes_something_goes_through(
    disk: Path, fill: Callable[[], None], visitor: Visitor, route: Any
) -> None:
    (disk / "audit.jsonl.reserve").unlink(missing_ok=True)
    fill()
    answer = visitor.http.post(path_of(route), data={"csrf": visitor.token(), "confirmed": "1"})
    assert answer.status_code == 503
    assert "cannot be written" in text_of(answer)


def test_a_change_under_way_while_the_disk_fills_up_is_still_logged(
    disk: Path, fill: Callable[[], None]
) -> None:
    file = disk / "another.jsonl"

    async def change() -> None:
        log = AuditLog(file)
        await log.ensure_room()
        fill()
        await log.write(**ENTRY, target="under way")
        fill()  # the rest of the reserve
        with pytest.raises(CannotLog):
            await log.ensure_room()
        (disk / "ballast").unlink()
        await log.ensure_room()
        await log.write(**ENTRY, target="later")

    asyncio.run(change())
    assert [each["target"] for each in lines(file)] == ["under way", "later"]


def test_a_log_that_may_not_be_written_is_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"

    async def change() -> None:
        with pytest.raises(CannotLog, match="No such file or directory"):
            await AuditLog(folder / "audit.jsonl").ensure_room()
        await AuditLog(None).ensure_room()

    asyncio.run(change())
