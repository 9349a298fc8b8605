"""Every command in the how-to guides runs.

Blocks marked `sh` hold one command per line, and the tests below run each of them beside a broker: servers until they
are ready, other commands until they end. Blocks marked `bash`, `console` and `python` are sessions with their own
tests, which RUN_ELSEWHERE names.
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts
from tests.docs.terminals import DOCS, blocks, commands
from tests.shell import ROOT, Shell, need_installed_commands, sessions, wait_until

GUIDES = sorted(path.relative_to(DOCS).as_posix() for path in (DOCS / "how-to").glob("*.md"))
PAGES = [*GUIDES, *sorted(path.relative_to(DOCS).as_posix() for path in (DOCS / "tutorials").glob("*.md"))]
EXECUTED = ("sh", "bash", "console", "python", "sql")

# Sessions, and the module that runs them.
RUN_ELSEWHERE = {
    "how-to/keep-old-segments-in-object-storage.md": "tests/docs/test_tiered_storage_page.py",
    "how-to/mirror-topics.md": "tests/docs/test_mirroring_page.py",
    "how-to/read-topics-in-spark.md": "tests/spark/test_docs.py",
    "how-to/register-schemas.md": "tests/docs/test_registry.py",
    "how-to/run-a-cluster.md": "tests/docs/test_cluster_page.py",
    "how-to/run-pipelines.md": "tests/docs/test_tutorials.py",
    "how-to/run-sql.md": "tests/sql/server/test_page.py",
    "how-to/secure-a-cluster.md": "tests/docs/test_data_at_rest.py",
    "how-to/test-with-ottla.md": "tests/docs/test_testing_page.py",
    "how-to/use-kafka-over-http.md": "tests/docs/test_rest_page.py",
    "how-to/write-a-connector.md": "tests/connect/test_writing_connectors.py",
    "tutorials/broker-in-tests.md": "tests/docs/test_tutorials.py",
    "tutorials/first-connector.md": "tests/connect/worker/test_on_spark.py",
    "tutorials/first-pipeline.md": "tests/docs/test_tutorials.py",
    "tutorials/sql-and-console.md": "tests/sql/test_docs.py",
    "tutorials/topic-as-table.md": "tests/docs/test_table_tutorial.py",
    "tutorials/three-brokers.md": "tests/cli/kafka/test_pages.py",
}

SERVERS = {
    "ottla start": "is ready.",
    "ottla console": "is ready.",
    "ottla exporter": "http://",
    "ottla canary": "records written",
    "ottla rest start": "is ready.",
}
# These need Spark, ZooKeeper or files of another machine, and run below or in the modules of RUN_ELSEWHERE. The
# options of every command are checked in any case.
CHECKED_ONLY = re.compile(
    r"--brokers 3|--connect\b|ottla connect start|connect-distributed|connect-standalone|ottla sql|ottla pipeline"
    r"|--spark$|ottla audit watch|ottla zookeeper start|kafka-rest-start|kafka-server-start|prometheus|pip install"
    r"|kafka-reassign-partitions .*wanted|ottla start --all|--config console.toml|kafka-configs --bootstrap-server …"
    r"|ann\.properties|ottla cluster rebalance|-b old:9092|-b new:9092"
)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_is_run(page: str) -> None:
    text = (DOCS / page).read_text()
    languages = [
        found for i, found in enumerate(re.findall(r"^ *```(\w*)", text, re.MULTILINE)) if i % 2 == 0
    ]
    assert "" not in languages, "a block without a language could hide a command"
    if sessions := set(languages) & {"bash", "console", "python", "sql"}:
        module = (ROOT / RUN_ELSEWHERE[page]).read_text()
        assert Path(page).name in module, f"{RUN_ELSEWHERE[page]} does not run the {sessions} of {page}"


def lines_of(page: str) -> list[str]:
    text = re.sub(r"(?m)^   (?= *(?:```|\S))", "", (DOCS / page).read_text())
    found = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(r"\s+# .*", "", line) for block in found for line in commands(block)]


def run_here(page: str) -> list[str]:
    return [line for line in lines_of(page) if not CHECKED_ONLY.search(line)]


@pytest.fixture
def broker() -> Iterator[Broker]:
    authorizer = "kafka.security.authorizer.AclAuthorizer"
    with Broker(config={"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"}) as running:
        yield running


@pytest.fixture
def shell(broker: Broker, tmp_path: Path) -> Shell:
    """A shell beside a broker with the topics that the pages mention."""
    need_installed_commands()
    for topic in ("orders", "payments", "tweets", "tweets-dead", "events", "results"):
        broker.create_topic(topic)
    broker.produce("orders", b'{"customer": "ann"}', key=b"ann")
    port = broker.bootstrap_servers.rpartition(":")[2]
    metrics, collector, console = map(str, ReservedPorts(3).numbers)
    instead = {
        "9092": port, "9404": metrics, "4318": collector, "8080": console, "https://collector": "http://127.0.0.1",
        "kafka1": "127.0.0.1", "kafka2": "127.0.0.1", "/srv/kafka": str(tmp_path / "secured"),
        "/backups": str(tmp_path / "backups"),
    }  # fmt: skip
    shell = Shell(tmp_path, instead)
    shell.environment["OTTLA_BOOTSTRAP_SERVER"] = broker.bootstrap_servers
    return shell


@contextmanager
def serving(shell: Shell, line: str, ready: str, seconds: float = 60) -> Iterator[None]:
    output = shell.directory / f"server-{len(list(shell.directory.glob('server-*.out')))}.out"
    process = shell.start(line, output)

    def is_ready() -> bool:
        said = output.read_text() + output.with_suffix(".err").read_text()
        assert process.poll() is None or "canary" in line, said
        return ready in said

    try:
        wait_until(is_ready, seconds)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def placed(line: str, number: int) -> tuple[str, str] | None:
    """Return a server's command on ports of its own, and the text that it prints when it is ready."""
    for words, ready in SERVERS.items():
        if line == words or line.startswith(f"{words} "):
            if words == "ottla start" and "--listen" not in line:
                line += " --listen 127.0.0.1:0"
            if words == "ottla start" and "--data" not in line:
                line += f" --data data-{number}"
            if words in ("ottla console", "ottla exporter", "ottla rest start") and "--listen" not in line:
                line += " --listen 127.0.0.1:0"
            return re.sub(r"--(rest|registry|console)(?= |$)(?! \S+:)", r"--\1 127.0.0.1:0", line), ready
    return None


@pytest.mark.parametrize("page", [page for page in GUIDES if run_here(page)])
def test_the_commands_of_a_guide_run(page: str, shell: Shell) -> None:
    if page == "how-to/declare-a-cluster.md":
        (shell.directory / "cluster.yaml").write_text(blocks(page, "yaml")[0])
        (shell.directory / "secrets").mkdir()
        (shell.directory / "secrets/ann").write_text("ann-secret\n")
    for number, line in enumerate(run_here(page)):
        if line.startswith("export "):
            continue
        if line.startswith("ottla audit balance") and not (shell.directory / "counted").exists():
            shell("ottla audit count orders --tier broker && ottla audit count orders --tier spark")
            (shell.directory / "counted").touch()
        if line.startswith("curl") and shutil.which("curl") is None:
            continue
        server = placed(line, number)
        if server is not None:
            with serving(shell, *server):
                pass
        elif line.startswith("curl"):
            with serving(shell, "ottla console --listen 127.0.0.1:8080", "is ready."):
                shell(line)
        else:
            done = shell.run(line, stderr=subprocess.STDOUT)
            assert done.returncode == 0, f"$ {line}\n{done.stdout}"


# On Spark. The servers among them, with the text that they print when they are ready.
SPARK_SERVERS = {
    "ottla start --connect": "is ready.",
    "ottla connect start": "is ready.",
    "ottla sql server": "is ready",
    "ottla pipeline run large_orders.py": "running",
    "ottla pipeline status large_orders --watch": "large_orders",
}
ON_SPARK = re.compile(r"--connect$|ottla connect start|ottla sql(?! --server)|ottla pipeline|--spark$")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "page", [page for page in GUIDES if any(ON_SPARK.search(line) for line in lines_of(page))]
)
def test_the_commands_of_a_guide_run_on_spark(page: str, shell: Shell) -> None:
    pytest.importorskip("pyspark")
    shell.seconds = 240
    shell.environment |= {"OTTLA_STATE_DIR": str(shell.directory / "state"), "SPARK_MASTER": "local[2]"}
    for code in blocks(page, "python")[:1]:
        (shell.directory / "large_orders.py").write_text(code)
    (shell.directory / "trending.sql").write_text("SHOW STREAMS;\n")
    shell("ottla topics create large-orders; ottla audit count orders --tier broker")
    for number, line in enumerate(filter(ON_SPARK.search, lines_of(page))):
        if line in SPARK_SERVERS or line.startswith("ottla connect start"):
            ready = SPARK_SERVERS.get(line, "is ready.")
            if "ottla start" in line:
                line = f"{line} 127.0.0.1:0 --listen 127.0.0.1:0 --data data-{number}"
            elif "connect start" in line or "sql server" in line:
                line += " --listen 127.0.0.1:0"
            with serving(shell, line, ready, seconds=240):
                pass
        else:
            shell(line)


@pytest.mark.parametrize("page", [page for page in GUIDES if lines_of(page)])
def test_the_options_of_every_ottla_command_exist(page: str) -> None:
    from ottla.cli.main import cli

    for line in lines_of(page):
        for part in line.split("|"):
            words = shlex.split(part)
            if not words or words[0] != "ottla":
                continue
            command: click.Command = cli
            rest, context = words[1:], click.Context(cli, info_name="ottla")
            while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
                found = command.get_command(context, rest[0])
                if found is None:
                    break
                command, rest = found, rest[1:]
            known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
            for word in rest:
                if word.startswith("--"):
                    assert word.partition("=")[0] in known, f"{line}: {word}"


def test_a_secured_broker_starts_as_printed(tmp_path: Path) -> None:
    need_installed_commands()
    [port] = ReservedPorts(1).numbers
    shell = Shell(tmp_path, {"0.0.0.0:9093": f"127.0.0.1:{port}", "/srv/kafka": str(tmp_path / "secured")})
    start, *others = [step.line for step in sessions(DOCS / "how-to" / "secure-a-cluster.md")]
    with serving(shell, start, "is ready."):
        for line in others:
            if line.startswith("export "):
                name, _, value = line.removeprefix("export ").partition("=")
                shell.environment[name] = shell.line(value)
            else:
                shell(line, stdin="a long password\na long password\n")
