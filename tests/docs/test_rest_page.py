"""The commands in docs/how-to/use-kafka-over-http.md run as printed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.http.background import InBackground
from ottla.rest.server import RestProxy
from ottla.rest.settings import RestSettings
from ottla.testing import Broker

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "use-kafka-over-http.md").read_text()
COMMANDS = [
    command
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for command in re.split(r"(?<!\\)\n+", block.strip())
]


def test_the_commands_run_as_they_are_printed(fresh_ottla_broker: Broker) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    assert len(COMMANDS) == 7
    settings = RestSettings({"bootstrap.servers": fresh_ottla_broker.bootstrap_servers}, port=0)
    with InBackground(lambda: RestProxy(settings), "rest") as proxy:
        address = proxy.url.removeprefix("http://")
        answers = []
        for command in COMMANDS:
            run = subprocess.run(
                ["bash", "-c", command.replace("localhost:8082", address)], capture_output=True, text=True
            )
            answers.append(run.stdout)
            while "/records" in command and run.stdout == "[]":  # the group is still forming
                run = subprocess.run(run.args, capture_output=True, text=True)
                answers[-1] = run.stdout
    topics, written, streamed, made, subscribed, read, deleted = answers
    assert json.loads(topics) == []
    assert [each["error_code"] for each in json.loads(written)["offsets"]] == [None, None]
    lines = [json.loads(line) for line in streamed.splitlines() if line]
    assert {each["value"]["text"] for each in lines} == {"Hello", "Kafka in Python"}
    assert json.loads(made)["instance_id"] == "me"
    assert json.loads(read)[0]["topic"] == "greetings"
    assert subscribed == deleted == ""
