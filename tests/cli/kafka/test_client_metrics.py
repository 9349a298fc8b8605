"""kafka-client-metrics."""

from uuid import UUID


def test_a_subscription_is_kept_shown_and_deleted(tools):
    altered = tools("client-metrics", "--alter", "--name", "slow", "--interval", 5000, "--metrics", "a.,b.")
    assert altered.lines == ["Altered client metrics config for slow."]
    assert "slow" in tools("client-metrics", "--list").lines
    tools("client-metrics", "--alter", "--name", "slow", "--interval", "", "--match", "client_id=x")
    described = tools("client-metrics", "--describe", "--name", "slow").lines
    assert described[0] == "Client metrics configs for slow are:"
    assert {"  metrics=a.,b.", "  match=client_id=x"} <= set(described)
    assert "  interval.ms=5000" not in described
    assert tools("client-metrics", "--delete", "--name", "slow").lines == [
        "Deleted client metrics config for slow."
    ]
    assert "slow" not in tools("client-metrics", "--list").lines
    assert tools("client-metrics", "--describe", "--name", "slow").lines == [
        "The client metric resource slow doesn't exist and doesn't have dynamic config."
    ]


def test_a_name_is_made(tools):
    [line] = tools("client-metrics", "--alter", "--generate-name", "--metrics", "a.").lines
    name = line.removeprefix("Altered client metrics config for ").removesuffix(".")
    assert UUID(name)
    tools("client-metrics", "--delete", "--name", name)


def test_wrong_usage(tools):
    for args, sentence in (
        (
            ["--list", "--describe"],
            "Command must include exactly one action: --alter, --delete, --describe or --list.",
        ),
        (["--alter", "--metrics", "a."], "One of --name or --generate-name must be specified with --alter."),
        (["--alter", "--name", "m", "--interval", "x"], "Invalid interval value."),
        (["--delete"], "A client metrics resource name must be specified with --delete."),
    ):
        assert sentence in tools("client-metrics", *args, code=1).err
    refused = tools("client-metrics", "--alter", "--name", "m", "--interval", 1, code=1)
    assert refused.out.startswith("Error while executing client metrics command : ")
