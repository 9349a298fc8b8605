"""The notation in which tools declare their options, and table output."""

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


def test_the_nearest_option_is_suggested_for_a_typo(parser):
    with pytest.raises(tool.UsageError, match=r"^topc is not a recognized option. Did you mean --topic\?$"):
        parser.options(["--topc=t"])
    with pytest.raises(tool.UsageError, match=r"^zzz is not a recognized option$"):
        parser.options(["--zzz"])
    with pytest.raises(tool.UsageError, match=r"Did you mean --verbose\?$"):
        parser.parse_args(["--verbos"])


def test_an_option_that_is_required_or_takes_a_number_is_checked(parser):
    with pytest.raises(JobError, match="Cannot parse argument 'soon' of option timeout"):
        parser.options(["--timeout", "soon"])
    parser.add_options("--id N!")
    with pytest.raises(tool.UsageError, match="--id"):
        parser.options(["--topic", "t"])


def test_a_number_is_no_larger_than_javas(parser):
    parser.add_options("--partitions N:int")
    assert parser.options(["--partitions", "2147483647", "--timeout", "2147483648"]).timeout == 2147483648
    for option, number in (("partitions", "2147483648"), ("timeout", "9223372036854775808")):
        with pytest.raises(JobError, match=f"Cannot parse argument '{number}' of option {option}"):
            parser.options([f"--{option}", number])


def test_one_dash_before_a_long_name_is_enough(parser):
    words = ["-broker-list", "b:1", "-topic=t", "-timeout", "5", "-group", "a", "-verbose"]
    args = parser.options(words)
    assert (args.bootstrap_server, args.topic, args.timeout, args.group) == ("b:1", "t", 5, ["a"])
    assert args.verbose
    with pytest.raises(JobError, match="Found multiple arguments for option topic"):
        parser.options(["-topic", "t", "--topic", "t"])
    with pytest.raises(tool.UsageError, match="Option topic requires an argument"):
        parser.options(["-topic"])
    with pytest.raises(tool.UsageError, match="bootstrap is not a recognized option"):
        parser.options(["-bootstrap", "b:1"])


def test_a_value_may_begin_with_a_dash(parser):
    args = parser.options(["-topic", "-verbose", "--timeout", "-5", "--group", "-x=y", "--group", "-"])
    assert (args.topic, args.timeout, args.group, args.verbose) == ("-verbose", -5, ["-x=y", "-"], False)
    with pytest.raises(tool.UsageError, match="Option topic requires an argument"):
        parser.options(["--topic", "--verbose"])


def test_one_dash_does_for_the_options_of_commands_and_beside_short_ones():
    parser = tool.Parser("kafka-some", "Some tool.", "--bootstrap-server")
    parser.add_command("format", "format it", "--config, -c FILE\n--cluster-id, -t ID\n--standalone, -s")
    args = parser.command(["-bootstrap-server", "b:1", "format", "-config", "f", "-t", "-id", "-s"])
    assert (args.bootstrap_server, str(args.config), args.cluster_id) == ("b:1", "f", "-id")
    assert args.standalone


def test_help_shows_what_was_declared(parser):
    text = parser.format_help()
    assert "--bootstrap-server HOST:PORT[,…], --broker-list HOST:PORT[,…]" in text
    assert "brokers to connect to first" in text
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
