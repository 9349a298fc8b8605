"""A real ZooKeeper server, from the jars of PySpark: one process with its own zoo.cfg."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from ottla.jvm.java import cache_directory, java_home
from ottla.jvm.zookeeper_security import ServerSecurity
from ottla.lifeline import start_child

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

# Spark's jars that a server needs: a short class path starts in a fifth of a second.
# fmt: off
_JARS = (
    "zookeeper-[0-9]*.jar", "zookeeper-jute-*.jar", "slf4j-api-*.jar", "log4j-api-*.jar", "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar", "netty-buffer-*.jar", "netty-codec*.jar", "netty-common-*.jar", "netty-handler-*.jar",
    "netty-resolver-*.jar", "netty-transport-*.jar", "metrics-core-*.jar", "snappy-java-*.jar",
    "jackson-annotations-*.jar", "jackson-core-2*.jar", "jackson-databind-*.jar", "audience-annotations-*.jar",
    "commons-cli-*.jar",
)
# fmt: on

_LOGGING = """\
status=error
appender.err.type=Console
appender.err.name=err
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
appender.err.layout.pattern=%d{ISO8601} %-5p %c{1}: %m%n
rootLogger.level=LEVEL
rootLogger.appenderRef.err.ref=err
"""


class NoZooKeeper(Exception):
    """ZooKeeper is unavailable. The message names the reason, and the package to install if one is missing."""


class PortTaken(NoZooKeeper):
    """Another process listens on the server's port."""


def jars() -> list[Path]:
    """Return ZooKeeper's jars and their dependencies, from SPARK_HOME or the installed PySpark."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        spec = find_spec("pyspark")
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        home = places[0] if places else None
    found = (
        [jar for pattern in _JARS for jar in sorted(Path(home or "", "jars").glob(pattern))] if home else []
    )
    if not any(jar.name.startswith("zookeeper-3") for jar in found):
        raise NoZooKeeper(
            "ZooKeeper comes with PySpark, which is not installed: `pip install 'ottla[spark]'`, "
            "or name another ensemble in zookeeper.connect."
        )
    return found


def command(
    config: Path, *, log_level: str = "warn", heap_megabytes: int = 512, options: Sequence[str] = ()
) -> list[str]:
    """Return the command for a server with this zoo.cfg and extra Java options. It logs to stderr."""
    return [
        str(java_home() / "bin" / "java"),
        f"-Xmx{heap_megabytes}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        "-XX:+ExitOnOutOfMemoryError",
        f"-Dlog4j2.configurationFile={_logging(log_level)}",
        # Operators use four-letter words on the client port; the jars lack the admin web server.
        "-Dzookeeper.4lw.commands.whitelist=*",
        "-Dzookeeper.admin.enableServer=false",
        *options,
        "-cp",
        os.pathsep.join(map(str, jars())),
        MAIN,
        str(config),
    ]


def _logging(level: str) -> Path:
    path = cache_directory() / f"zookeeper-log4j2-{level}.properties"
    text = _LOGGING.replace("LEVEL", level)
    if not path.is_file() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.write_text(text)
        draft.replace(path)
    return path


class ZooKeeperServer:
    """One server, alone or in an ensemble. `start` returns when it answers; its data outlives it.

    `ensemble` names all its servers including this one: id → host:peer port:election port.
    """

    def __init__(
        self,
        data: Path,
        port: int,
        *,
        host: str = "127.0.0.1",
        server_id: int = 1,
        ensemble: Mapping[int, str] | None = None,
        settings: Mapping[str, str] | None = None,
        security: ServerSecurity | None = None,
    ) -> None:
        self.data = data
        self.host = host
        self.port = port
        self._server_id = server_id
        self._ensemble = dict(ensemble or {})
        self._settings = dict(settings or {})
        self._security = security or ServerSecurity()
        self.process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def _write_config(self) -> Path:
        self.data.mkdir(parents=True, exist_ok=True)
        secure, port = self._security, "secureClientPort" if self._security.uses_tls else "clientPort"
        settings = {
            "tickTime": "2000",
            "initLimit": "10",
            "syncLimit": "5",
            # Brokers choose their session timeouts regardless of the tick time.
            "minSessionTimeout": "500",
            "maxSessionTimeout": "60000",
            "maxClientCnxns": "0",
            "dataDir": str(self.data.absolute()),
            port: str(self.port),
            f"{port}Address": self.host,
            **secure.server_settings(in_ensemble=bool(self._ensemble)),
            **self._settings,
        }
        lines = [f"{key}={value}" for key, value in settings.items()]
        if self._ensemble:
            (self.data / "myid").write_text(f"{self._server_id}\n")
            lines += [f"server.{each}={where}" for each, where in sorted(self._ensemble.items())]
        path = self.data / "zoo.cfg"
        path.write_text("\n".join(lines) + "\n")
        return path

    def launch(self) -> None:
        """Start the server without waiting: the servers of an ensemble wait for each other."""
        config = self._write_config()
        with (self.data / "zookeeper.log").open("ab") as log:
            self._log_start = log.tell()
            # Only the starting process gets Ctrl-C, and stops the server when it is no longer needed.
            options = self._security.jvm_options(self.data)
            self.process = start_child(command(config, options=options), log, new_session=True)

    def wait(self, seconds: float = 30.0) -> None:
        """Wait until the server answers; in an ensemble, until it has found a leader."""
        deadline = time.monotonic() + seconds
        while not (self.serves() and self._is_own_answer()):
            if self.process is not None and self.process.poll() is not None:
                raise self._failure()
            if time.monotonic() > deadline:
                raise NoZooKeeper(f"ZooKeeper at {self.address} did not answer in {seconds:g} seconds.")
            time.sleep(0.02)

    def start(self, seconds: float = 30.0) -> None:
        self.launch()
        self.wait(seconds)

    def serves(self) -> bool:
        return "Mode:" in self.ask("srvr")

    def ask(self, word: str) -> str:
        """Return the answer to a four-letter word, empty without one."""
        return four_letter_word(self.host, self.port, word, tls=self._security.probe()) or ""

    def stop(self) -> None:
        self._end(kill=False)

    def kill(self) -> None:
        self._end(kill=True)

    def _end(self, *, kill: bool) -> None:
        if self.process is None:
            return
        if kill:
            self.process.kill()
        else:
            self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def _is_own_answer(self) -> bool:
        """Return False if another server answers on the port: this one is about to fail."""
        answer = self.ask("conf")
        # A secured server does not execute `conf`.
        return str(self.data.absolute()) in answer or "not in the whitelist" in answer

    def _failure(self) -> NoZooKeeper:
        with (self.data / "zookeeper.log").open("rb") as log:
            log.seek(self._log_start)
            lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        if any("Address already in use" in line for line in lines):
            return PortTaken(f"ZooKeeper did not start: port {self.port} is already in use.")
        # The exception explains more than the error lines around it.
        for sign in ("Exception: ", "ERROR"):
            for line in reversed(lines):
                if sign in line:
                    return NoZooKeeper(f"ZooKeeper did not start: {line.strip()}")
        return NoZooKeeper(f"ZooKeeper did not start: {lines[-1] if lines else 'it gave no reason.'}")


def ensemble(
    data: Path,
    count: int,
    *,
    host: str = "127.0.0.1",
    port: int = 2181,
    security: ServerSecurity | None = None,
) -> list[ZooKeeperServer]:
    """Return `count` servers on one machine: client ports from `port`, ports between servers above them."""
    if count == 1:
        return [ZooKeeperServer(data, port, host=host, security=security)]
    own = port + 1000
    members = {n: f"{host}:{own + 2 * n}:{own + 2 * n + 1}" for n in range(1, count + 1)}
    return [
        ZooKeeperServer(
            data / f"server-{n}", port + n - 1, host=host, server_id=n, ensemble=members, security=security
        )
        for n in members
    ]


def four_letter_word(
    host: str, port: int, word: str, seconds: float = 2.0, tls: ssl.SSLContext | None = None
) -> str | None:
    """Return the answer to ruok, srvr, mntr, …; None if there is no answer."""
    with (
        contextlib.suppress(OSError),
        socket.create_connection((host, port), timeout=seconds) as plain,
        plain if tls is None else tls.wrap_socket(plain, server_hostname=host) as connection,
    ):
        connection.sendall(word.encode())
        answer = b""
        while received := connection.recv(65536):
            answer += received
        return answer.decode(errors="replace")
    return None
