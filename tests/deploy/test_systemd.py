"""`ottla install --systemd`: the plan, the files, and what systemd says about the units."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.main import cli
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.testing.ports import free_ports

UNITS = ["ottla", "ottla@", "ottla-connect", "ottla-console", "ottla-registry", "ottla-rest"]
MOST_EXPOSURE = 1.5


def install(root: Path, *options: str) -> Result:
    done = CliRunner().invoke(cli, ["install", "--systemd", "--root", str(root), *options])
    assert done.exit_code == 0, done.output
    return done


def unit(root: Path, name: str) -> Path:
    return root / "usr" / "lib" / "systemd" / "system" / f"{name}.service"


def test_the_plan_changes_nothing(tmp_path: Path) -> None:
    said = install(tmp_path, "--dry-run").output
    assert f"create   {unit(tmp_path, 'ottla')}" in said
    assert list(tmp_path.iterdir()) == []
    refused = CliRunner().invoke(cli, ["install", "--systemd", "--root", str(tmp_path)])
    assert "needs a confirmation" in str(refused.exception)


def test_settings_of_the_operator_stay(tmp_path: Path) -> None:
    install(tmp_path, "--yes")
    settings = tmp_path / "etc" / "ottla" / "server.properties"
    assert settings.stat().st_mode & 0o777 == 0o640
    settings.write_text("broker.id=7\n")
    unit(tmp_path, "ottla").write_text("[Unit]\n")
    said = install(tmp_path, "--yes").output
    assert f"keep     {settings}" in said
    assert f"replace  {unit(tmp_path, 'ottla')}" in said
    assert settings.read_text() == "broker.id=7\n"
    assert "ExecStart=" in unit(tmp_path, "ottla").read_text()


def test_the_settings_are_those_of_a_broker(tmp_path: Path) -> None:
    install(tmp_path, "--yes")
    config = BrokerConfig.load(tmp_path / "etc" / "ottla" / "server.properties")
    assert config.warnings == []
    assert [str(each) for each in config.log_dirs] == ["/var/lib/ottla"]
    text = unit(tmp_path, "ottla").read_text()
    [seconds] = [line.partition("=")[2] for line in text.splitlines() if line.startswith("TimeoutStopSec=")]
    assert int(seconds) > config.get_int("ottla.shutdown.timeout.ms") / 1000


@pytest.mark.parametrize("name", UNITS)
def test_the_commands_of_units_exist(name: str, tmp_path: Path) -> None:
    install(tmp_path, "--yes")
    [command] = [
        line for line in unit(tmp_path, name).read_text().splitlines() if line.startswith("ExecStart=")
    ]
    _, *words = shlex.split(command.removeprefix("ExecStart="))
    subcommand = [each for each in words[:2] if not each.startswith("-")]
    said = CliRunner().invoke(cli, [*subcommand, "--help"])
    assert said.exit_code == 0
    assert all(each in said.output for each in words if each.startswith("--"))


def test_a_broker_tells_systemd_when_it_is_ready_and_when_it_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        [port] = free_ports(1)
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "ottla",
                "start",
                "-q",
                "-l",
                f"127.0.0.1:{port}",
                "-d",
                tmp_path / "data",
            ],
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
        )
        try:
            assert manager.recv(100) == b"READY=1"
            with socket.create_connection(("127.0.0.1", port)):
                pass
            process.send_signal(signal.SIGTERM)
            assert manager.recv(100) == b"STOPPING=1"
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()


@pytest.mark.deploy
@pytest.mark.parametrize("name", UNITS)
def test_systemd_accepts_the_unit_and_finds_it_safe(
    name: str, tmp_path: Path, tool: Callable[[str], str]
) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed: apt install systemd")
    install(tmp_path, "--yes")
    file = unit(tmp_path, name)
    file.write_text(file.read_text().replace("ExecStart=/", f"ExecStart={sys.executable} /", 1))
    verified = subprocess.run(
        [tool("systemd-analyze"), "verify", "--man=no", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager",
         f"--threshold={MOST_EXPOSURE * 10:.0f}", str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert judged.returncode == 0, judged.stdout
