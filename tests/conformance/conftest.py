"""The broker under test, the clients, and the result matrix.

python -m pytest tests/conformance                              Ottla, started for the run
python -m pytest tests/conformance --bootstrap 127.0.0.1:9092   any other broker, such as Apache Kafka
python -m pytest tests/conformance/suite/test_security.py --secured-kafka
python -m pytest tests/conformance --matrix docs/reference/compatibility.md
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .cases import parameters
from .client import AgentClient, Client
from .clients import CLIENTS, ConfluentClient
from .matrix import FAILED, NO_CLIENT, NOT_RUN, PASSED, Cell, Matrix, write_between_markers
from .records import ClientError
from .settings import QUICK
from .topics import MakeTopic, is_served
from .waiting import wait_for

BY_NAME = {client.name: client for client in CLIENTS}
MATRIX = pytest.StashKey[Matrix]()
CATALOGUE = pytest.StashKey[list[Cell]]()

OUTCOMES = {"passed": PASSED, "failed": FAILED, "skipped": NOT_RUN}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption(
        "--bootstrap",
        metavar="HOST:PORT",
        default=os.environ.get("OTTLA_TEST_BOOTSTRAP"),
        help="test the broker that listens there instead of one of Ottla's (or OTTLA_TEST_BOOTSTRAP)",
    )
    group.addoption(
        "--secured-kafka",
        action="store_true",
        help="test the cases of security with Apache Kafka, started for the run, instead of Ottla",
    )
    group.addoption("--matrix", metavar="FILE", help="write the table of results into this Markdown file")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "case(title, needs, axes): a conformance case, see cases.py")
    config.stash[MATRIX] = Matrix([client.name for client in CLIENTS])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("case")
    if mark is None or "client" not in metafunc.fixturenames:
        return
    axes = list(mark.kwargs["axes"])
    values = []
    for chosen, client in parameters(mark, CLIENTS):
        named = [client, *(BY_NAME[value] for value in chosen.values() if value in BY_NAME)]
        marks = list(mark.kwargs["marks"](chosen))
        if not all(one.from_pypi for one in named):
            marks.append(pytest.mark.peers)
        identity = "-".join([*(str(value) for value in chosen.values()), client.name])
        values.append(pytest.param(*chosen.values(), client.name, marks=marks, id=identity))
    metafunc.parametrize([*axes, "client"], values, indirect=["client"])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    catalogue = []
    for item in items:
        mark = item.get_closest_marker("case")
        if mark is None or not isinstance(item, pytest.Function):
            continue
        chosen: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
        section = (item.module.__doc__ or "").partition(".")[0]
        titles = {name: getattr(BY_NAME.get(value), "title", value) for name, value in chosen.items()}
        cell = (section, mark.kwargs["title"].format(**titles), chosen.get("client", NO_CLIENT))
        item.user_properties.append(("conformance", cell))
        catalogue.append(cell)
    config.stash[CATALOGUE] = catalogue
    config.stash[MATRIX].expect(catalogue)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        _reports.append(report)


# Reports carry no config and the terminal summary does, so the two meet there.
_reports: list[pytest.TestReport] = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect the results of a finished xdist worker, which alone has seen every case, even deselected ones."""
    node.config.stash[MATRIX].expect(map(tuple, getattr(node, "workeroutput", {}).get("catalogue", ())))


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["catalogue"] = config.stash.get(CATALOGUE, [])
        return
    target = config.getoption("--matrix", None)
    if target is None:
        return
    matrix = config.stash[MATRIX]
    for report in _reports:
        for name, value in report.user_properties:
            if name == "conformance":
                section, case, client = value
                matrix.add((section, case, client), OUTCOMES[report.outcome])
    titles = {client.name: f"{client.title} {client.version()}".strip() for client in CLIENTS}
    write_between_markers(Path(config.invocation_params.dir, target), matrix.render(titles))


@pytest.fixture(scope="session")
def bootstrap(pytestconfig: pytest.Config) -> Iterator[str]:
    address = pytestconfig.getoption("--bootstrap", None) or os.environ.get("OTTLA_TEST_BOOTSTRAP")
    if address:
        yield address
        return
    from ottla.testing import Broker

    with Broker(config=QUICK) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def clients(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Client]]:
    """The clients by name, each started on first use and kept for the session."""
    started: dict[str, Client] = {}
    directory = tmp_path_factory.mktemp("clients")

    def get(name: str) -> Client:
        if name not in started:
            reason = BY_NAME[name].unavailable()
            if reason is not None:
                pytest.skip(reason)
            started[name] = BY_NAME[name](bootstrap, directory)
        return started[name]

    yield get
    for client in started.values():
        client.close()


@pytest.fixture
def client(clients: Callable[[str], Client], request: pytest.FixtureRequest) -> Iterator[Client]:
    """The client that runs the case."""
    client = clients(request.param)
    yield client
    client.clean_up_members()


@pytest.fixture(scope="session")
def observer(clients: Callable[[str], Client]) -> AgentClient:
    """The client that prepares topics and checks the results of the client under test."""
    observer = clients(ConfluentClient.name)
    assert isinstance(observer, AgentClient)
    # The first use of a group creates __consumer_offsets; no case should have to wait for that.
    wait_for(lambda: has_coordinator(observer), "groups have a coordinator")
    return observer


def has_coordinator(observer: AgentClient) -> bool:
    try:
        observer.call("committed", group="warm-up", topic="warm-up", partitions=[0])
    except ClientError:
        return False
    return True


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A unique name for a topic or a group."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return f"{name.removeprefix('test-').strip('-')}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def make_topic(observer: AgentClient, unique: str) -> MakeTopic:
    """Create a topic and wait until it is available."""

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"{unique}-{uuid.uuid4().hex[:4]}"
        observer.call(
            "create_topic",
            name=name,
            partitions=partitions,
            replication=1,
            configs={key.replace("_", "."): value for key, value in configs.items()},
            validate_only=False,
        )
        wait_for(lambda: is_served(observer, name, partitions), f"{name} has leaders")
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """A topic with one partition."""
    return make_topic()
