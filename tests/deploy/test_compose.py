"""The Compose files and the Containerfile fit each other, the commands and the settings that they use."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from ottla.broker.environment import settings_from_environment
from ottla.cli.main import cli
from ottla.metadata.configs.broker_config import BrokerConfig

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose"
FILES = sorted(COMPOSE.glob("*.yaml"))


def services(file: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text())["services"]
    return found


def brokers() -> list[Any]:
    return [
        pytest.param(service, id=f"{file.stem}-{name}")
        for file in FILES
        for name, service in services(file).items()
        if "KAFKA_LISTENERS" in service.get("environment", {})
    ]


@pytest.mark.parametrize("service", brokers())
def test_brokers_understand_their_environment(service: dict[str, Any]) -> None:
    config = BrokerConfig.embedded(settings_from_environment(service["environment"]))
    assert config.warnings == []
    outside = {each.name: each.port for each in config.listeners}["OUTSIDE"]
    assert service["ports"] == [f"127.0.0.1:{outside}:{outside}"]
    assert f"OUTSIDE://localhost:{outside}" in service["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert service["read_only"] is True
    seconds = int(service["stop_grace_period"].removesuffix("s"))
    assert seconds > config.get_int("ottla.shutdown.timeout.ms") / 1000


def test_three_brokers_have_three_ids() -> None:
    found = [param.values[0]["environment"].get("KAFKA_BROKER_ID") for param in brokers()]
    assert found == [None, "0", "1", "2"]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        (name, service["command"])
        for file in FILES
        for name, service in services(file).items()
        if "command" in service
    ],
)
def test_commands_and_their_options_exist(name: str, command: list[str]) -> None:
    words = [each for each in command if not each.startswith("-")]
    depth = 2 if command[1] in ("start", "server") else 1
    said = CliRunner().invoke(cli, [*words[:depth], "--help"])
    assert said.exit_code == 0, said.output
    for option in [each.partition("=")[0] for each in command if each.startswith("-")]:
        assert option in said.output, (name, option)


def test_the_locked_packages_are_exact_and_have_hashes() -> None:
    for file in (ROOT / "deploy" / "container").glob("requirements-*.txt"):
        text = file.read_text().replace("\\\n", "")
        lines = [line for line in text.splitlines() if line.strip()]
        assert lines
        for line in lines:
            assert re.match(r"[A-Za-z0-9._-]+(\[\S+\])?==\S+", line), line
            assert "--hash=sha256:" in line, line


def test_the_locked_packages_are_all_that_the_wheel_needs() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    block = project.partition("\ndependencies = [")[2].partition("]")[0]
    needed = {re.split(r"[>=\[]", each)[0].lower() for each in re.findall(r'"([^"]+)"', block)}
    for name in ("broker", "full"):
        text = (ROOT / "deploy" / "container" / f"requirements-{name}.txt").read_text()
        locked = {line.partition("==")[0].lower() for line in text.splitlines() if "==" in line}
        assert needed <= locked, name


def test_the_image_runs_without_root_and_checks_its_health() -> None:
    text = (ROOT / "deploy" / "container" / "Containerfile").read_text()
    last = text.rpartition("\nFROM ")[2]
    assert last.startswith("base AS broker")
    assert "USER 10001:10001" in text
    assert text.count("ottla.monitoring.metrics.probe") == 2
    assert 'ENTRYPOINT ["tini", "--", "ottla"]' in text


@pytest.mark.deploy
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_compose_accepts_the_file(file: Path, tool: Callable[[str], str]) -> None:
    command = [tool("docker-compose"), "-f", str(file), "config", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["services"]) == set(services(file))
