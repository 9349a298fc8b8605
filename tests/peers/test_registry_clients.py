"""Promise: clients of Confluent's registry in Go and JavaScript work with ours unchanged."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.testing import Broker

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
FRANZ_GO = "github.com/twmb/franz-go/pkg/sr@v1.7.0"
KAFKAJS = "@kafkajs/confluent-schema-registry@3.9.0"


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1]


@pytest.fixture(scope="module")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("franz-go needs Go, and no `go` is on the PATH")
    work = tmp_path_factory.mktemp("go")
    shutil.copy(HERE / "go_registry" / "main.go", work)
    for step in (["mod", "init", "peer"], ["get", FRANZ_GO], ["mod", "tidy"]):
        done = subprocess.run([go, *step], cwd=work, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            pytest.skip(f"franz-go cannot be had: {_last(done.stderr)}")
    environment = os.environ | {"CGO_ENABLED": "0"}
    subprocess.run([go, "build", "-o", "peer", "."], cwd=work, env=environment, check=True, timeout=240)
    return work / "peer"


@pytest.fixture(scope="module")
def node_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("kafkajs needs Node.js, and no `node` and `npm` are on the PATH")
    work = tmp_path_factory.mktemp("node")
    shutil.copy(HERE / "node" / "registry.js", work)
    command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(work), KAFKAJS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    if done.returncode != 0:
        pytest.skip(f"npm could not install {KAFKAJS}: {_last(done.stderr)}")
    return work / "registry.js"


def _run(*command: str | Path) -> tuple[list[str], str, int]:
    with Broker(registry=True) as broker:
        done = subprocess.run(
            [*command, broker.schema_registry_url], capture_output=True, text=True, timeout=90, check=False
        )
    return done.stdout.splitlines(), done.stderr, done.returncode


def test_franz_go(go_program: Path) -> None:
    assert _run(go_program) == (
        [
            "AVRO 1 true true",
            "JSON 1 true true",
            "PROTOBUF 1 true true",
            "compatible false true",
            "refused 409 409",
            "level FULL",
            "subjects 3 [1]",
            "deleted [1]",
            "gone 40401",
        ],
        "",
        0,
    )


def test_kafkajs(node_program: Path) -> None:
    assert _run("node", node_program) == (
        ["AVRO: 7 true", "JSON: 7 true", "PROTOBUF: 7 true", "refused: ResponseError"],
        "",
        0,
    )
