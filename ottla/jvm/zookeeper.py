"""ZooKeeper servers started from PySpark's jars or an installed ZooKeeper, and their security settings."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from ottla.jvm.java import cache_directory, java_home
from ottla.python_process import start_child

# Security of a ZooKeeper server: TLS with keys in PEM files, and users with DIGEST-MD5 logins.

_NETTY_FACTORY = "org.apache.zookeeper.server.NettyServerCnxnFactory"
_NETTY_SOCKET = "org.apache.zookeeper.ClientCnxnSocketNetty"
_PROVIDERS = "org.apache.zookeeper.server.auth"
_DIGEST_MODULE = f"{_PROVIDERS}.DigestLoginModule"
_BOTH_VERSIONS = "TLSv1.2,TLSv1.3"
# Commands allowed to everyone before a login: they reveal no names.
_HARMLESS_WORDS = "ruok,srvr,mntr,isro"


@dataclass(frozen=True)
class ServerSecurity:
    """Security requirements of a server. `repr` hides them.

    With a `key_store`, a PEM file with private key and certificates, the server and its ensemble speak TLS only. A
    `trust_store`, a PEM file of authorities, verifies certificates of clients and other servers. `client_auth` requires
    client certificates (`need`), accepts them (`want`) or ignores them (`none`). With `users`, names and passwords,
    every client has to log in.
    """

    key_store: Path | None = field(default=None, repr=False)
    trust_store: Path | None = field(default=None, repr=False)
    client_auth: str = "none"
    users: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def uses_tls(self) -> bool:
        return self.key_store is not None

    # Server side

    def server_settings(self, *, in_ensemble: bool) -> dict[str, str]:
        """Return the lines of zoo.cfg, besides the ports."""
        settings = {}
        if self.key_store is not None:
            stores = {"keyStore.location": str(self.key_store.absolute()), "keyStore.type": "PEM"}
            if self.trust_store is not None:
                stores |= {"trustStore.location": str(self.trust_store.absolute()), "trustStore.type": "PEM"}
            settings["serverCnxnFactory"] = _NETTY_FACTORY
            settings["authProvider.x509"] = f"{_PROVIDERS}.X509AuthenticationProvider"
            settings["ssl.clientAuth"] = self.client_auth
            settings["ssl.enabledProtocols"] = _BOTH_VERSIONS
            # A client is identified by its certificate alone; the server does not know its host name.
            settings["ssl.clientHostnameVerification"] = "false"
            settings |= {f"ssl.{name}": value for name, value in stores.items()}
            if in_ensemble:
                settings["sslQuorum"] = "true"
                settings["ssl.quorum.enabledProtocols"] = _BOTH_VERSIONS
                settings |= {f"ssl.quorum.{name}": value for name, value in stores.items()}
        if self.users:
            settings["authProvider.sasl"] = f"{_PROVIDERS}.SASLAuthenticationProvider"
            settings["enforce.auth.enabled"] = "true"
            settings["enforce.auth.schemes"] = "sasl"
        return settings

    def jvm_options(self, directory: Path) -> list[str]:
        """Return the Java options. Writes the users to a file in the server's directory
        that only its owner can read.
        """
        options = []
        if self.uses_tls or self.users:
            options.append(f"-Dzookeeper.4lw.commands.whitelist={_HARMLESS_WORDS}")
        if self.users:
            users = {f"user_{name}": password for name, password in self.users.items()}
            file = write_jaas(directory / "jaas.conf", "Server", users)
            options.append(f"-Djava.security.auth.login.config={file}")
        return options

    def probe(self) -> ssl.SSLContext | None:
        """Return a context for checking whether a local server is up. It sends no secrets and trusts no answers."""
        if self.key_store is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if self.client_auth != "none":
            with contextlib.suppress(OSError):  # another format, in which case the server does not answer
                context.load_cert_chain(self.key_store, password="")
        return context

    # Broker side

    def broker_settings(self, *, trust_store: Path, key_store: Path | None = None) -> dict[str, str]:
        """Return the settings of a broker, or of `zookeeper-shell -zk-tls-config-file`, for this server.

        `trust_store` has the authority of the server's certificate; `key_store` the broker's key for `client_auth`.
        """
        if not self.uses_tls:
            return {}
        settings = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": _NETTY_SOCKET,
            "zookeeper.ssl.enabled.protocols": _BOTH_VERSIONS,
            "zookeeper.ssl.truststore.location": str(trust_store.absolute()),
            "zookeeper.ssl.truststore.type": "PEM",
        }
        if key_store is not None:
            settings |= {
                "zookeeper.ssl.keystore.location": str(key_store.absolute()),
                "zookeeper.ssl.keystore.type": "PEM",
            }
        return settings

    def broker_environment(self, file: Path, user: str) -> dict[str, str]:
        """Return the environment of a broker logged in as `user`. Writes the password to `file`, readable by its owner
        only.
        """
        written = write_jaas(file, "Client", {"username": user, "password": self.users[user]})
        others = os.environ.get("KAFKA_OPTS", "")
        return {"KAFKA_OPTS": f"{others} -Djava.security.auth.login.config={written}".strip()}


def write_jaas(path: Path, section: str, options: Mapping[str, str]) -> Path:
    """Write a JAAS file with one ZooKeeper login module, atomically and readable by its owner only."""
    lines = [f"    {name}={_quoted(value)}" for name, value in options.items()]
    text = "\n".join([f"{section} {{", f"    {_DIGEST_MODULE} required", *lines]) + ";\n};\n"
    write_private(path, text)
    return path.absolute()


def write_private(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


# A real ZooKeeper server, from the jars of PySpark: one process with its own zoo.cfg.

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
