"""Promise: a Go program with franz-go produces, joins groups of every kind and commits transactions."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.testing import Broker

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

SOURCE = Path(__file__).parent / "go" / "main.go"
FRANZ_GO = "github.com/twmb/franz-go/pkg/kgo@v1.22.2"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("franz-go needs Go, and no `go` is on the PATH")
    work = tmp_path_factory.mktemp("go")
    shutil.copy(SOURCE, work)
    for step in (["mod", "init", "peer"], ["get", FRANZ_GO], ["mod", "tidy"]):
        done = subprocess.run([go, *step], cwd=work, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            pytest.skip(
                f"franz-go cannot be had: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"
            )
    environment = os.environ | {"CGO_ENABLED": "0"}
    subprocess.run([go, "build", "-o", "peer", "."], cwd=work, env=environment, check=True, timeout=240)
    return work / "peer"


def test_franz_go(program: Path) -> None:
    with Broker() as broker:
        done = subprocess.run(
            [program, broker.bootstrap_servers], capture_output=True, text=True, timeout=90, check=False
        )
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (
        [
            "codecs: gzip lz4 none snappy zstd",
            *[
                f"{group}: {value}0 {value}1 {value}2 {value}3"
                for group in ("classic", "cooperative", "consumer")
                for value in "ab"
            ],
            "transactions: 0 2 end",
        ],
        "",
        0,
    )
