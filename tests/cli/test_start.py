"""`ottla start`, with a stand-in for the broker and with the real broker."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.commands.servers.start import broker_settings, parse_listen
from ottla.cli.main import run

# The seam between the command and the broker, with nothing behind it.
STAND_IN = """
import asyncio, sys, time, types

class StartupError(Exception): pass
class PortTaken(StartupError): pass

class Server:
    shutdown_seconds = 30.0
    @classmethod
    def from_options(cls, config_file, overrides):
        server = cls()
        if "refuse" in overrides: raise StartupError(overrides["refuse"])
        server.listen_addresses = [overrides["listeners"].removeprefix("PLAINTEXT://")]
        server.data_dirs = [overrides["log.dirs"]]
        server.metrics_url = None
        if "hang" in overrides: server.shutdown_seconds, server.stop = 0.3, lambda: asyncio.to_thread(time.sleep, 60)
        return server
    async def start(self): pass
    async def failed(self): await asyncio.Event().wait()
    async def stop(self): print("stop() was called")

module = types.ModuleType("ottla.broker.lifecycle.server")
module.Server, module.StartupError, module.PortTaken = Server, StartupError, PortTaken
sys.modules["ottla.broker.lifecycle.server"] = module
from ottla.cli.main import main
main()
"""


def start_stand_in(*args, cwd=None, before=()):
    return subprocess.Popen(
        [*before, sys.executable, "-c", STAND_IN, "start", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUNBUFFERED": "1"},
    )


def read_until(stream, text):
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"{text!r} was not printed: {lines}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_and_what_to_try_and_stops_cleanly(tmp_path, number):
    process = start_stand_in(cwd=tmp_path)
    welcome = read_until(process.stdout, "Ctrl-C stops the broker.")
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert "127.0.0.1:9092" in welcome
    assert "./ottla-data" in welcome
    assert "  echo hello | ottla produce greetings\n" in welcome
    assert "  ottla consume greetings --from-beginning\n" in welcome
    assert out == "stop() was called\nStopped cleanly.\n"
    assert (process.returncode, err) == (0, "")


def test_ctrl_c_is_not_for_a_broker_in_the_background_of_a_script(tmp_path):
    """A shell starts it with SIGINT ignored, and like Kafka's broker it keeps that. SIGTERM ends it."""
    process = start_stand_in(cwd=tmp_path, before=("sh", "-c", 'trap "" INT; exec "$@"', "sh"))
    read_until(process.stdout, "Ctrl-C stops the broker.")
    status = Path(f"/proc/{process.pid}/status").read_text()
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    assert ignored & 1 << signal.SIGINT - 1
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "stop() was called\nStopped cleanly.\n", "")


def test_another_address_is_part_of_what_to_try(tmp_path):
    process = start_stand_in("--listen", "0.0.0.0:19999", "--data", str(tmp_path / "d"), cwd=tmp_path)
    welcome = read_until(process.stdout, "Ctrl-C stops the broker.")
    process.terminate()
    process.communicate(timeout=20)
    assert "ottla topics list -b localhost:19999" in welcome


def test_what_the_broker_refuses_is_one_sentence(tmp_path):
    process = start_stand_in("--set", "refuse=The port is taken.", cwd=tmp_path)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (1, "", "Error: The port is taken.\n")


def test_options_become_settings_of_the_broker(tmp_path):
    plain = broker_settings(None, None, {}, with_file=False)
    assert plain["listeners"] == "PLAINTEXT://127.0.0.1:9092"
    assert Path(plain["log.dirs"]).name == "ottla-data"
    assert broker_settings(None, None, {"a": "b"}, with_file=True) == {"a": "b"}
    assert broker_settings("9999", tmp_path, {"log.dirs": "/other"}, with_file=True) == {
        "listeners": "PLAINTEXT://127.0.0.1:9999",
        "log.dirs": "/other",
    }


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:0", "localhost:0"),
        ("9093", "127.0.0.1:9093"),
        (":9092", ":9092"),
        ("example.org", "example.org:9092"),
        ("[::1]:9092", "[::1]:9092"),
    ],
)
def test_addresses(text, address):
    assert parse_listen(text) == address


@pytest.mark.parametrize("text", ["host:port", "host:70000", "::1", "host:"])
def test_what_is_not_an_address(text, capsys):
    assert run(["start", "--listen", text]) == 2
    assert "is not an address" in capsys.readouterr().err


# -- the broker itself -------------------------------------------------------------------------------------


@pytest.fixture
def broker_exists():
    pytest.importorskip("ottla.broker.lifecycle.server")


def start(*args, cwd):
    return subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", "start", *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUNBUFFERED": "1"},
    )


def test_a_stop_that_hangs_ends_in_bounded_time():
    process = start_stand_in("--listen", "127.0.0.1:9192", "--set", "hang=1")
    read_until(process.stdout, "Ctrl-C stops the broker.")
    process.terminate()
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "has not stopped in 0.3 s (ottla.shutdown.timeout.ms)" in err
    assert len(err.splitlines()) == 1


@pytest.mark.usefixtures("broker_exists")
class TestRealBroker:
    def test_it_starts_serves_and_keeps_its_data(self, alone, tmp_path):
        for round_ in range(2):
            process = start("--listen", "127.0.0.1:0", "--data", "data", cwd=tmp_path)
            welcome = read_until(process.stdout, "Ctrl-C stops the broker.")
            port = int(welcome.split("127.0.0.1:")[1].split()[0])
            assert port != 0
            assert (tmp_path / "data").is_dir()
            server = ("-b", f"127.0.0.1:{port}")
            alone("produce", "greetings", "-m", f"hello {round_}", *server)
            read = alone("consume", "greetings", "--from-beginning", "--until-end", *server)
            assert read.lines == [f"hello {n}" for n in range(round_ + 1)]
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
            assert (process.returncode, err) == (0, "")
            assert out.strip() == "Stopped cleanly."

    def refused(self, *args, cwd):
        process = start(*args, cwd=cwd)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (1, "")
        assert err.startswith("Error: ")
        assert len(err.splitlines()) == 1
        return err

    def test_a_port_that_is_taken(self, tmp_path):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            assert self.refused("--listen", f"127.0.0.1:{port}", cwd=tmp_path) == (
                f"Error: Port {port} on 127.0.0.1 is taken by another program: stop it, or listen elsewhere with "
                "--listen HOST:PORT.\n"
            )

    def test_a_data_directory_in_use(self, tmp_path):
        first = start("--listen", "127.0.0.1:0", "--data", "data", cwd=tmp_path)
        read_until(first.stdout, "Ctrl-C stops the broker.")
        assert "data" in self.refused("--listen", "127.0.0.1:0", "--data", "data", cwd=tmp_path)
        first.terminate()
        first.communicate(timeout=30)

    def test_a_data_directory_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").write_text("not a directory")
        self.refused("--listen", "127.0.0.1:0", "--data", "file/data", cwd=tmp_path)

    def test_a_bad_config_file(self, tmp_path):
        self.refused("--config", "missing.properties", cwd=tmp_path)
        (tmp_path / "server.properties").write_text("num.partitions=many\n")
        assert "num.partitions" in self.refused("--config", "server.properties", cwd=tmp_path)
