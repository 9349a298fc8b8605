"""`ottla mirror link`: the output and errors of its commands, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("pyarrow")

from ottla.cli.commands.mirror_link import link
from ottla.testing import Broker
from tests.mirror.link.clusters import copy, create_mirror, produce

Pair = tuple[Broker, Broker]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Broker() as a, Broker() as b:
        yield a, b


@pytest.fixture
def file(pair: Pair, tmp_path: Path) -> Path:
    return written(tmp_path, pair[0].bootstrap_servers, pair[1].bootstrap_servers)


def written(directory: Path, here: str, there: str, more: str = "here->there.enabled = true\n") -> Path:
    path = directory / "link.properties"
    path.write_text(
        f"link.name = dr\nclusters = here, there\nhere.bootstrap.servers = {here}\n"
        f"there.bootstrap.servers = {there}\ntopics = .*\n{more}"
    )
    return path


def run(*words: object, answer: str = "") -> Result:
    return CliRunner().invoke(link, [str(word) for word in words], input=answer)


def test_the_drill(pair: Pair, file: Path) -> None:
    a, b = pair
    a.create_topic("orders")
    produce(a, "orders", [b"1"] * 5)
    create_mirror(a, b, "orders")
    copy(a, b, "orders")
    produce(a, "orders", [b"2"] * 2)
    assert run("status", file).output.splitlines() == [
        "PARTITION  SOURCE-END  MIRROR-END  LAG",
        "orders-0   7           5           2",
    ]
    refused = run("promote", file, "orders")
    assert refused.exit_code != 0
    assert "orders-0 lacks 2 records" in str(refused.exception) + refused.output
    declined = run("failover", file, "orders", answer="n\n")
    assert "orders-0: 2 records will be lost, offsets 5 to 6." in declined.output
    assert len(produce(b, "orders", [b"x"])) == 1  # no effect
    assert "is promoted" in run("failover", file, "orders", "--yes").output
    assert produce(b, "orders", [b"3"]) == []
    back = run("failback", file, "orders", "--yes")
    assert "orders-0: 2 records will be lost, offsets 5 to 6." in back.output
    assert "ottla mirror link start --reverse" in back.output
    copy(b, a, "orders", link="there-here")
    assert run("status", "--reverse", file).output.splitlines()[1] == "orders-0   6           6           0"
    assert "No records" not in run("promote", "--reverse", file, "orders").output
    assert produce(a, "orders", [b"4"]) == []


def test_a_topic_that_is_no_mirror_is_not_promoted(pair: Pair, file: Path) -> None:
    pair[1].create_topic("plain")
    said = run("promote", file, "plain")
    assert "no mirror topic 'plain' of link 'dr'" in str(said.exception) + said.output
    said = run("failback", file, "plain", "--yes")
    assert "was not promoted" in str(said.exception) + said.output
    assert produce(pair[1], "plain", [b"x"]) == []


def test_a_source_that_is_gone_is_said_and_does_not_hinder_a_fail_over(pair: Pair, tmp_path: Path) -> None:
    a, b = pair
    a.create_topic("alone")
    create_mirror(a, b, "alone")
    path = written(tmp_path, "127.0.0.1:9", b.bootstrap_servers)
    assert "cannot be reached, so the lag is not known" in run("status", path).output
    assert "how much is lost is not known" in run("failover", path, "alone", "--yes").output
    assert produce(b, "alone", [b"x"]) == []


def test_a_link_has_one_direction(tmp_path: Path) -> None:
    both = "here->there.enabled = true\nthere->here.enabled = true\n"
    for more, words in ((both, "A link copies in one direction"), ("", "No flow is enabled")):
        said = run("status", written(tmp_path, "127.0.0.1:9", "127.0.0.1:9", more))
        assert words in str(said.exception) + said.output


@pytest.mark.timeout(40)  # requests retry for up to a minute
@pytest.mark.parametrize(
    "words", [["status"], ["promote", "orders"], ["failover", "orders"], ["failback", "orders"]]
)
def test_a_target_that_is_away_is_said_at_once(pair: Pair, tmp_path: Path, words: list[str]) -> None:
    command, *topics = words
    refused = run(command, written(tmp_path, pair[0].bootstrap_servers, "127.0.0.1:1"), *topics)
    assert refused.exit_code != 0
    assert "Cannot reach a broker at 127.0.0.1:1" in str(refused.exception) + refused.output
