"""Apache Kafka, resolved from Maven Central at run time and started as a neighbour.

Nothing of Kafka is kept in the repository: its jars go to a cache under the user's cache directory
(``OTTLA_CACHE`` moves it). Where Java, Maven or Maven Central is missing, everything here raises
``Unavailable`` with one sentence that says what is missing, so that a bench or a test can skip itself.

    with ApacheKafka() as kafka:
        kafka.bootstrap_servers
        run_tool(TOPICS, ["--bootstrap-server", kafka.bootstrap_servers, "--list"])
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from xml.sax.saxutils import escape

from bench.measuring.wire import free_port
from bench.peers.broker_process import BrokerProcess

VERSION = "4.3.0"
SCALA = "2.13"

# The last version with ZooKeeper.
ZOOKEEPER_VERSION = "3.9.1"

# Kafka logs through slf4j to log4j, which without a configuration prints errors only; until 4.0 that was version 1.
_LOGGING = {VERSION: "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"}
_OLD_LOGGING = "org.slf4j:slf4j-reload4j:1.7.36"
# The newest clients, of a release whose broker is not on Maven Central yet; the last two are for OAUTHBEARER.
NEWEST_CLIENTS = "4.4.0"
_CLIENT_EXTRAS = (
    "org.slf4j:slf4j-nop:1.7.36",
    "com.fasterxml.jackson.core:jackson-databind:2.21.2",
    "org.bitbucket.b_c:jose4j:0.9.6",
)
# Kafka Streams, and Kafka Connect with its connectors for files and for mirroring.
APPLICATION_ARTIFACTS = (
    *(
        f"org.apache.kafka:{name}:{VERSION}"
        for name in ("kafka-streams", "connect-runtime", "connect-json", "connect-file", "connect-mirror")
    ),
    "org.slf4j:slf4j-nop:1.7.36",
)

TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"

# Spark's own connector, and what Spark's distribution lacks of what it needs. Its release 4.2.0 runs on Spark 4.2
# and 4.3. The rest of its dependencies are in Spark already, so that only these are copied.
SPARK_CONNECTOR_VERSION = "4.2.0"
SPARK_FORMATS = {"spark-avro": "4.1.1", "spark-protobuf": SPARK_CONNECTOR_VERSION}
SPARK_CONNECTOR_ARTIFACTS = (
    f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{SPARK_CONNECTOR_VERSION}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_{SCALA}:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
    f"org.scala-lang.modules:scala-parallel-collections_{SCALA}:1.2.0",
)

BROKER_JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-Djava.awt.headless=true")
TOOL_JVM = ("-Xmx512m", "-XX:+UseG1GC", "-Djava.awt.headless=true")


class Unavailable(Exception):
    """Apache Kafka cannot be had on this machine; the message says why in one sentence."""


def cache_directory() -> Path:
    root = os.environ.get("OTTLA_CACHE")
    if root:
        return Path(root)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla"


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise Unavailable("Apache Kafka needs Java 17 or later, and no `java` is on the PATH")
    return found


def kafka_jars(version: str = VERSION) -> Path:
    """The directory that holds the broker, its tools and everything they need."""
    artifacts = (
        f"org.apache.kafka:kafka_{SCALA}:{version}",
        f"org.apache.kafka:kafka-tools:{version}",
        _LOGGING.get(version, _OLD_LOGGING),
    )
    return resolve(f"apache-kafka-{version}", artifacts)


def client_jars(version: str = VERSION) -> Path:
    """The directory that holds kafka-clients and what it needs: enough for a Java producer or consumer."""
    return resolve(
        f"kafka-clients-{version}-only", (f"org.apache.kafka:kafka-clients:{version}", *_CLIENT_EXTRAS)
    )


def spark_connector_jars() -> str:
    """The jars of `format("kafka")`, as `spark.jars` wants them."""
    name = f"spark-kafka-{SPARK_CONNECTOR_VERSION}"
    jars = resolve(name, SPARK_CONNECTOR_ARTIFACTS, transitive=False)
    return ",".join(sorted(map(str, jars.glob("*.jar"))))


def spark_format_jars() -> str:
    """Those of `from_avro` and `from_protobuf`, as far as they can be had: they come later than the connector's."""
    found: list[str] = []
    for name, version in SPARK_FORMATS.items():
        with contextlib.suppress(Unavailable):
            jars = resolve(
                f"{name}-{version}", [f"org.apache.spark:{name}_{SCALA}:{version}"], transitive=False
            )
            found += sorted(map(str, jars.glob("*.jar")))
    return ",".join(found)


def kafka_classpath(version: str = VERSION) -> str:
    return f"{kafka_jars(version)}/*"


def client_classpath(version: str = VERSION) -> str:
    return f"{client_jars(version)}/*"


def application_classpath() -> str:
    """Kafka Streams and Kafka Connect."""
    return f"{resolve(f'kafka-applications-{VERSION}', APPLICATION_ARTIFACTS)}/*"


def resolve(name: str, artifacts: Sequence[str], *, transitive: bool = True, timeout: float = 600) -> Path:
    """Copy the artifacts and, where that is wanted, their dependencies into ``<cache>/<name>``, once per machine.

    The directory appears complete or not at all (it is renamed into place), and a lock keeps two
    processes from resolving the same one, so checkouts that run in parallel share the cache.
    """
    java()
    target = cache_directory() / name
    if target.is_dir():
        return target
    mvn = shutil.which("mvn")
    if mvn is None:
        raise Unavailable("Apache Kafka's jars are resolved with Maven, and no `mvn` is on the PATH")
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.is_dir():
            return target
        work = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=target.parent))
        try:
            (work / "pom.xml").write_text(_pom(artifacts, transitive))
            command = [mvn, "-B", "-q", "-f", str(work / "pom.xml"), "dependency:copy-dependencies"]
            command.append(f"-DoutputDirectory={work / 'jars'}")
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
            except subprocess.TimeoutExpired:
                raise Unavailable(f"Maven did not finish resolving {name} within {timeout:.0f} s") from None
            if done.returncode != 0:
                raise Unavailable(f"Maven could not resolve {name}: {_first_error(done.stdout)}")
            (work / "jars").rename(target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return target


def _pom(artifacts: Sequence[str], transitive: bool) -> str:
    nothing_else = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>".format(
            *map(escape, artifact.split(":"))
        )
        + f"<exclusions>{'' if transitive else nothing_else}</exclusions></dependency>"
        for artifact in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>ottla</groupId><artifactId>neighbours</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


def _first_error(output: str) -> str:
    for line in output.splitlines():
        _, found, said = line.partition("[ERROR]")
        if found and said.strip():
            return said.strip()[:300]
    return "Maven failed without saying why"


def run_tool(
    class_name: str,
    args: Sequence[str],
    *,
    timeout: float = 300,
    check: bool = True,
    input: str | None = None,
    jvm: Sequence[str] = TOOL_JVM,
    version: str = VERSION,
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's own tools, for example ``org.apache.kafka.tools.TopicCommand``."""
    command = [java(), *jvm, "-cp", kafka_classpath(version), class_name, *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, input=input)
    if check and done.returncode != 0:
        reason = tool_reason(done.stderr or done.stdout)
        raise RuntimeError(f"{class_name} ended with {done.returncode}: {reason}")
    return done


def tool_reason(said: str) -> str:
    """What a Java tool died of, out of its stack trace: the innermost cause, else the first exception."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    exceptions = [line for line in lines if "Exception" in line or "Error" in line]
    return (causes[-1:] or exceptions[:1] or lines[-1:] or ["it said nothing"])[0][:500]


def random_cluster_id() -> str:
    return run_tool("kafka.tools.StorageTool", ["random-uuid"]).stdout.strip().splitlines()[-1]


class ApacheKafka(BrokerProcess):
    """One Apache Kafka broker in KRaft mode, broker and controller in one process.

    Owns, unless ``data`` is given, its temporary directory.
    """

    name = "Apache Kafka"

    def __init__(
        self,
        *,
        port: int = 0,
        second_listener: tuple[str, int] | None = None,
        data: Path | str | None = None,
        config: Mapping[str, str] | None = None,
        cluster_id: str | None = None,
        jvm: Sequence[str] = BROKER_JVM,
        start_timeout: float = 120,
    ) -> None:
        super().__init__(port, start_timeout)
        self._second_listener = second_listener  # security protocol and port
        self._config = dict(config or {})
        self._cluster_id = cluster_id
        self._jvm = tuple(jvm)
        self._temporary = data is None
        self.directory = Path(tempfile.mkdtemp(prefix="apache-kafka-") if data is None else data)
        self.log_dir = self.directory / "data"

    def properties(self) -> dict[str, str]:
        controller = free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{self.port}"
        if self._second_listener is not None:
            protocol, port = self._second_listener
            listeners += f",{protocol}://127.0.0.1:{port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": ",".join(
                [
                    *(f"{each}:{each}" for each in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT")),
                    "CONTROLLER:PLAINTEXT",
                ]
            ),
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._config,
        }

    def start(self) -> ApacheKafka:
        """Format the storage if it is new, start the broker and wait until it answers ApiVersions."""
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.properties().items()))
        classpath = kafka_classpath()
        if not (self.log_dir / "meta.properties").exists():
            cluster = self._cluster_id or random_cluster_id()
            run_tool("kafka.tools.StorageTool", ["format", "-t", cluster, "-c", str(properties)])
        self.launch(
            [java(), *self._jvm, "-cp", classpath, "kafka.Kafka", str(properties)],
            self.directory / "kafka.out",
        )
        return self

    def remove(self) -> None:
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> ApacheKafka:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.remove()
