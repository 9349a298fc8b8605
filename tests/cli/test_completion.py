"""Shell completion, called the way a shell calls it."""

import subprocess
import sys

import pytest


def complete(environment, words, index):
    done = subprocess.run(
        [sys.executable, "-c", "from ottla.cli.main import main; main()"],
        env={
            **environment,
            "_OTTLA_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(index),
        },
        capture_output=True,
        timeout=60,
    )
    assert done.stderr == b""
    return [line.partition(",")[2] for line in done.stdout.decode().splitlines() if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_says_how_to_turn_it_on(alone, shell):
    script = alone("completion", shell).text
    assert script.startswith(f"# Completion of ottla for {shell}. To turn it on:")
    assert f"_OTTLA_COMPLETE={shell}_complete" in script


def test_the_bash_script_is_bash(alone):
    subprocess.run(["bash", "-n"], input=alone("completion", "bash").out, check=True, timeout=60)


def test_commands_and_options(alone):
    assert complete(alone.environment, "ottla to", 1) == ["topics"]
    assert "--from-beginning" in complete(alone.environment, "ottla consume --fro", 2)
    assert complete(alone.environment, "ottla configs describe t", 3) == ["topic"]


def test_topics_and_groups_come_from_the_broker(ottla, topic, group):
    assert complete(ottla.environment, f"ottla consume {topic[:10]}", 2) == [topic]
    assert complete(ottla.environment, f"ottla configs describe topic {topic[:10]}", 4) == [topic]
    ottla("consume", topic, "--group", group, "--until-end")
    ottla("groups", "reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
    assert complete(ottla.environment, f"ottla groups describe {group[:10]}", 3) == [group]


def test_without_a_broker_there_are_no_names_and_no_noise(alone):
    assert complete(alone.environment, "ottla consume x", 2) == []
