"""The file and the commands of docs/mirroring.md work as they are printed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.properties import parse_properties
from ottla.testing.ports import free_ports

PAGE = (Path(__file__).parents[2] / "docs" / "mirroring.md").read_text()
FILE, LINK_FILE = re.findall(r"```properties\n(.*?)```", PAGE, re.DOTALL)
BROKERS, MIRROR, CONSUME, LINK, FAILOVER, FAILBACK = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)


def test_the_file_is_understood() -> None:
    from ottla.spark.mirror.settings import parse_flows

    flows = parse_flows({each.key: each.value for each in parse_properties(FILE)})
    [flow] = [each for each in flows if each.enabled]
    assert flow.name == "here->there"
    assert flow.should_copy("orders")
    assert not flow.should_copy("payments")
    assert flow.remote_topic("orders") == "here.orders"
    assert flow.sync_group_offsets == 60


@pytest.mark.slow
@pytest.mark.spark
def test_the_commands_run_as_they_are_printed(tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    here, there = free_ports(2)

    def placed(text: str) -> str:
        return text.replace(":9092", f":{here}").replace(":9192", f":{there}")

    (tmp_path / "mm2.properties").write_text(placed(FILE))
    wait = "until ottla topics list >/dev/null 2>&1; do sleep 0.3; done\n"
    running = "until grep -q RUNNING mirror.log; do sleep 0.3; done\n"
    mirror = MIRROR.replace("mm2.properties &", "mm2.properties > mirror.log &")
    assert mirror != MIRROR
    script = placed(BROKERS) + wait + placed(mirror) + running + placed(CONSUME)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "OTTLA_BOOTSTRAP_SERVER": f"127.0.0.1:{here}"}
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
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
            if "second" in line:
                break
        else:
            raise AssertionError("".join(said))
        assert any("first" in line for line in said)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)


def test_the_file_of_the_link_is_understood() -> None:
    from ottla.spark.mirror.link.settings import parse_link

    link = parse_link({each.key: each.value for each in parse_properties(LINK_FILE)})
    assert (link.name, link.flow.name) == ("dr", "here->there")
    assert link.should_copy("payments")
    assert not link.should_copy("orders")
    assert link.flow.sync_group_offsets == 5


@pytest.mark.slow
@pytest.mark.spark
def test_the_commands_of_the_link_run_as_they_are_printed(tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    here, there = free_ports(2)

    def placed(text: str) -> str:
        return text.replace(":9092", f":{here}").replace(":9192", f":{there}")

    def started(text: str, log: str) -> str:
        waits = f"until grep -q 'RUNNING  1 topics' {log}; do sleep 0.3; done\n"
        return placed(text).replace("link.properties &", f"link.properties > {log} 2>&1 &\nlink=$!") + waits

    (tmp_path / "link.properties").write_text(placed(LINK_FILE))
    wait = "until ottla topics list >/dev/null 2>&1; do sleep 0.3; done\n"
    status = "ottla mirror link status{} link.properties"
    copied = "until " + status + " | grep -q '^payments-0 .* 0$'; do sleep 0.3; done\n"
    parts = [
        placed(BROKERS), wait, started(LINK, "link.log"), copied.format(""), status.format("") + "\n",
        placed(FAILOVER), "kill $link; wait $link || true\n", placed(FAILBACK.splitlines(keepends=True)[0]),
        started(FAILBACK.splitlines(keepends=True)[1], "back.log"), copied.format(" --reverse"),
        "ottla mirror link promote --reverse link.properties payments\n",
        "printf 'four\\n' | ottla produce payments\n",
        "ottla consume payments --from-beginning --max-messages 4\n", "kill $link; wait $link || true\n",
    ]  # fmt: skip
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "OTTLA_BOOTSTRAP_SERVER": f"127.0.0.1:{here}"}
    process = subprocess.Popen(
        ["bash", "-ec", "".join(parts) + "echo the end\n"],
        cwd=tmp_path,
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
            if "the end" in line:
                break
        text = "".join(said)
        assert "No records will be lost." in text, text
        assert "Topic 'payments' of cluster here is promoted" in text, text
        *_, last = [line for line in text.splitlines() if "four" in line]
        assert last, text
        assert "the end" in text, text
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)
