"""Promise: a Node.js program with kafkajs produces, rebalances, commits transactions and administers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.testing import Broker

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

SOURCE = Path(__file__).parent / "node" / "peer.js"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("kafkajs needs Node.js, and no `node` and `npm` are on the PATH")
    work = tmp_path_factory.mktemp("node")
    shutil.copy(SOURCE, work)
    command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(work), "kafkajs@2.2.4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    if done.returncode != 0:
        pytest.skip(
            f"npm could not install kafkajs: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"
        )
    return work / SOURCE.name


def test_kafkajs(program: Path) -> None:
    with Broker() as broker:
        done = subprocess.run(
            ["node", program, broker.bootstrap_servers],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (
        [
            "group: Stable 2 a b c d",
            "committed: 2 2 2 2",
            "groups: 0",
            "transactions: 0 2 end offset 3",
            "again: false",
            "topic: 3 compact",
            "deleted: true",
        ],
        "",
        0,
    )
