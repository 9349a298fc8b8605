"""The file and the commands in docs/how-to/mirror-topics.md work as printed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ottla.properties import parse_properties
from ottla.testing.ports import free_ports

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "mirror-topics.md").read_text()
FILE, LINK_FILE = re.findall(r"```properties\n(.*?)```", PAGE, re.DOTALL)
BROKERS, MIRROR, CONSUME, LINK, FAILOVER, FAILBACK, *DRILL = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
LIVE, OVER, OLD_SIDE, SAME, BACK = DRILL
STATUS = "ottla mirror link status{} link.properties"


def test_the_file_is_understood() -> None:
    from ottla.mirror.settings import parse_flows

    flows = parse_flows({each.key: each.value for each in parse_properties(FILE)})
    [flow] = [each for each in flows if each.enabled]
    assert flow.name == "here->there"
    assert flow.should_copy("orders")
    assert not flow.should_copy("payments")
    assert flow.remote_topic("orders") == "here.orders"
    assert flow.sync_group_offsets == 60


class Shell:
    """Types the page's commands, with the test's own ports."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("bash") is None:
            pytest.skip("there is no bash")
        self._directory = directory
        self.here, self.there = free_ports(2)

    def placed(self, text: str) -> str:
        return text.replace(":9092", f":{self.here}").replace(":9192", f":{self.there}")

    def write(self, name: str, text: str) -> None:
        (self._directory / name).write_text(self.placed(text))

    def run(self, *parts: str) -> str:
        """Run a command and return its output up to `the end`."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "OTTLA_BOOTSTRAP_SERVER": f"127.0.0.1:{self.here}"}
        process = subprocess.Popen(
            ["bash", "-ec", "".join(map(self.placed, parts)) + "echo the end\n"],
            cwd=self._directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        said = []
        try:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                if line == "the end\n":
                    return "".join(said)
            raise AssertionError("".join(said))
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate(timeout=60)


UNTIL_ANSWERED = "until ottla topics list >/dev/null 2>&1; do sleep 0.3; done\n"


def until(command: str) -> str:
    return f"until {command}; do sleep 0.3; done\n"


def started(text: str, log: str) -> str:
    """Start a link in the background and wait until it runs."""
    kept = text.replace("link.properties &", f"link.properties > {log} 2>&1 &\nlink=$!")
    assert kept != text
    return kept + until(f"grep -q 'RUNNING  [1-9]' {log}")


def copied(topic: str, reverse: str = "") -> str:
    return until(STATUS.format(reverse) + f" | grep -q '^{topic}-0 .* 0$'")


@pytest.mark.slow
@pytest.mark.spark
def test_the_commands_run_as_they_are_printed(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write("mm2.properties", FILE)
    mirror = MIRROR.replace("mm2.properties &", "mm2.properties > mirror.log &")
    assert mirror != MIRROR
    said = shell.run(BROKERS, UNTIL_ANSWERED, mirror, until("grep -q RUNNING mirror.log"), CONSUME)
    assert "first\nsecond\n" in said


def test_the_file_of_the_link_is_understood() -> None:
    from ottla.mirror.link.settings import parse_link

    link = parse_link({each.key: each.value for each in parse_properties(LINK_FILE)})
    assert (link.name, link.flow.name) == ("dr", "here->there")
    assert link.should_copy("payments")
    assert not link.should_copy("orders")
    assert link.flow.sync_group_offsets == 5


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_commands_of_the_link_run_as_they_are_printed(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write("link.properties", LINK_FILE)
    text = shell.run(
        BROKERS, UNTIL_ANSWERED, started(LINK, "link.log"), copied("payments"), STATUS.format("") + "\n",
        FAILOVER, "kill $link; wait $link || true\n", FAILBACK.splitlines(keepends=True)[0],
        started(FAILBACK.splitlines(keepends=True)[1], "back.log"), copied("payments", " --reverse"),
        "ottla mirror link promote --reverse link.properties payments\n",
        "printf 'four\\n' | ottla produce payments\n",
        "ottla consume payments --from-beginning --max-messages 4\n", "kill $link; wait $link || true\n",
    )  # fmt: skip
    assert "No records will be lost." in text
    assert "Topic 'payments' of cluster here is promoted" in text
    assert "\nfour\n" in text


def lines_of(what: str, least: int) -> str:
    """Wait until the consumer has read this many payments of a producer."""
    return until(f"test $(grep -c '^{what} ' books.txt) -ge {least}")


#: True if group `books` has committed the topic's end offset, or with `any` an offset at all.
GROUP = """
import sys
from ottla.client.admin.groups import committed_offsets
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.offsets import LATEST, list_offsets
from ottla.client.settings import Settings
servers, wanted = sys.argv[1:]
cluster = Cluster(Settings.from_properties({"bootstrap.servers": servers}))
place = TopicPartition("payments-live", 0)
offset = committed_offsets(cluster, "books").get(place, -1)
sys.exit(offset <= 0 if wanted == "any" else offset != list_offsets(cluster, {place: LATEST})[place].offset)
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_drill_runs_as_it_is_printed_and_nothing_is_lost_that_was_mirrored(tmp_path: Path) -> None:
    """The link is killed first, so that `failover` has something to report, and then the source."""
    shell = Shell(tmp_path)
    shell.write("link.properties", LINK_FILE)
    shell.write("group.py", GROUP)
    first, second = BROKERS.splitlines(keepends=True)
    source = first.replace("&\n", "& here=$!\n")
    assert source != first
    row = STATUS.format("") + " | awk '$1 == \"payments-live-0\" && {} {{ found = 1 }} END {{ exit !found }}'"
    failback, reverse = OLD_SIDE.splitlines(keepends=True)
    text = shell.run(
        source, second, UNTIL_ANSWERED, started(LINK, "link.log"), LIVE, lines_of("here", 50),
        until(row.format("$3 > 50")), until("python group.py 127.0.0.1:9192 any 2>/dev/null"),
        "kill -9 $link\n", until(row.format("$4 > 20")),
        OVER, "kill -9 $here\n", lines_of("there", 50),
        source, UNTIL_ANSWERED, failback, started(reverse, "back.log"), lines_of("there", 100),
        "kill $producer; wait $producer || true\n", until("python group.py 127.0.0.1:9192 end"),
        "kill $consumer; wait $consumer || true\n", copied("payments-live", " --reverse"),
        until("python group.py 127.0.0.1:9092 end"), SAME, BACK, lines_of("back", 20),
        "kill $producer $consumer; wait $producer $consumer || true\n",
        "ottla consume payments-live --from-beginning --until-end --quiet > final.txt\n", "kill $link\n",
    )  # fmt: skip
    assert "The logs are the same.\n" in text
    found = re.search(r"payments-live-0: (\d+) records will be lost, offsets (\d+) to (\d+)\.", text)
    assert found is not None, text
    lost, mirrored, last = map(int, found.groups())
    assert lost == last - mirrored + 1 > 0
    final, books = ((tmp_path / name).read_text().splitlines() for name in ("final.txt", "books.txt"))
    for who, count in (("here", mirrored), ("there", None), ("back", None)):
        kept = [line for line in final if line.startswith(who)]
        assert kept == [f"{who} {number}" for number in range(1, (count or len(kept)) + 1)]
    read = Counter(books)
    assert all(read[line] for line in final if not line.startswith("back"))
    assert all(int(line.split()[1]) <= last + 1 for line in read if line.startswith("here"))
    # The group read each record after the moves once.
    for who in ("there", "back"):
        seen = [line for line in books if line.startswith(who)]
        assert seen == [line for line in final if line.startswith(who)][: len(seen)]
