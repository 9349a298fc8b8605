"""The notation in which tools declare their options, and their tables."""

import pytest

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool

OPTIONS = """
    --bootstrap-server, --broker-list
    --topic TOPIC         the topic
    --timeout MS          how long
                          to wait
    --throughput N:float
    --group GROUP*        may be repeated
    --props K=V+
    --state STATES?
    --verbose             more columns
"""


@pytest.fixture
def parser():
    return tool.Parser("kafka-some", "Some tool.", OPTIONS, without_any="This tool does something.")


def test_options_have_the_type_and_the_number_that_their_metavar_says(parser):
    numbers = ["--timeout", "5", "--throughput", "1.5"]
    several = ["--group", "a", "--group", "b", "--props", "c=d", "e=f"]
    args = parser.options(["--broker-list", "b:1", *numbers, *several, "--state", "--verbose"])
    assert (args.bootstrap_server, args.topic, args.timeout, args.throughput) == ("b:1", None, 5, 1.5)
    assert (args.group, args.props, args.state, args.verbose) == (["a", "b"], ["c=d", "e=f"], "", True)
    assert parser.options(["--topic", "t"]).group == []


def test_an_option_that_is_required_or_takes_a_number_is_checked(parser):
    with pytest.raises(JobError, match="Cannot parse argument 'soon' of option timeout"):
        parser.options(["--timeout", "soon"])
    parser.add_options("--id N!")
    with pytest.raises(tool.UsageError, match="--id"):
        parser.options(["--topic", "t"])


def test_help_shows_what_was_declared(parser):
    text = parser.format_help()
    assert "--bootstrap-server HOST:PORT[,…], --broker-list HOST:PORT[,…]" in text
    assert "the brokers to connect to first" in text
    assert [line.strip() for line in text.splitlines() if "how long" in line or "to wait" in line] == [
        "--timeout MS          how long",
        "to wait",
    ]


def test_a_tool_without_any_option_says_what_it_is_for(parser):
    with pytest.raises(tool.UsageError, match=r"This tool does something\."):
        parser.options([])


def test_tables_pad_to_a_width_or_to_the_longest_cell(capsys):
    rows = [("a-long-name", 1, "x", "end"), ("b", None, "y", "e")]
    tool.print_table("GROUP 6+, N 3, HIDDEN 9, LAST", rows, without=["HIDDEN"])
    assert capsys.readouterr().out.splitlines() == [
        "GROUP       N   LAST",
        "a-long-name 1   end",
        "b           -   e",
    ]
