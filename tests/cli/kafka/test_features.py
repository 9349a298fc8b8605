"""kafka-features and kafka-storage."""

import re

import pytest


def test_features_are_described(tools):
    line = (
        f"Feature: {'transaction.version':<42}SupportedMinVersion: {0:<17}SupportedMaxVersion: {2:<17}"
        f"FinalizedVersionLevel: {2:<17}Epoch: 0"
    )
    assert line in tools("features", "describe").lines


def test_a_feature_stays_as_it_is(tools):
    upgraded = tools("features", "upgrade", "--feature", "group.version=1")
    assert upgraded.out == "group.version was upgraded to 1.\n"
    checked = tools("features", "downgrade", "--feature", "transaction.version=2", "--dry-run")
    assert checked.out == "transaction.version can be downgraded to 2.\n"
    refused = tools("features", "disable", "--feature", "share.version", code=1)
    assert refused.out == (
        "Could not disable share.version. The update failed for all features since the following feature had an error: "
        "Invalid update version 0 for feature share.version. It comes with the brokers of this cluster, which have 2 "
        "and cannot change it.\n"
    )
    assert refused.err == "1 out of 1 operation(s) failed.\n"
    unknown = tools("features", "upgrade", "--feature", "nope=1", "--feature", "group.version=1", code=1)
    assert len(unknown.lines) == 2
    assert unknown.err == "2 out of 2 operation(s) failed.\n"


@pytest.mark.parametrize("tool", ["features", "storage"])
def test_the_features_of_a_release_are_told_without_a_broker(alone, tool):
    assert alone(tool, "version-mapping").lines[0] == "metadata.version=33 (4.4-IV2)"
    assert alone(tool, "version-mapping", "--release-version", "4.0").lines == [
        "metadata.version=25 (4.0)",
        "kraft.version=1",
        "transaction.version=2",
        "group.version=1",
        "eligible.leader.replicas.version=0",
        "share.version=0",
        "streams.version=0",
    ]
    asked = ("--feature", "group.version=1", "--feature", "eligible.leader.replicas.version=1")
    assert alone(tool, "feature-dependencies", *asked).lines == [
        "group.version=1 has no dependencies.",
        "eligible.leader.replicas.version=1 requires:",
        "    metadata.version=23 (4.0-IV1)",
    ]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("upgrade",), "You must specify at least one feature to upgrade"),
        (("upgrade", "--feature", "group.version"), "equals sign not found."),
        (("upgrade", "--feature", "group.version=x"), "unable to parse x as a short."),
        (("upgrade", "--feature", "group.version=0"), "The upgradeType flag should be set to SAFE_DOWNGRADE"),
        (("upgrade", "--feature", "a=1", "--feature", "a=1"), "Feature a was specified more than once."),
        (("upgrade", "--feature", "a=1", "--release-version", "4.0"), "Can not specify `release-version`"),
        (("upgrade", "--release-version", "9.9"), "Unknown metadata.version '9.9'."),
        (("feature-dependencies", "--feature", "nope=1"), "Unknown feature: nope"),
        (
            ("feature-dependencies", "--feature", "group.version=9"),
            "No feature:group.version with feature level 9",
        ),
        ((), "The action is missing."),
    ],
    ids=str,
)
def test_what_kafka_features_refuses(tools, args, said):
    failed = tools("features", *args, code=1)
    assert said in failed.err
    assert len(failed.err.splitlines()) == 1


def test_a_broker_has_to_be_named(alone):
    assert alone("features", "describe", code=1).err == (
        "You must specify either --bootstrap-controller or --bootstrap-server.\n"
    )


def test_random_ids(alone):
    ids = {alone("storage", "random-uuid").out for _ in range(3)}
    assert len(ids) == 3
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}\n", text) for text in ids)


def test_scripts_that_format_first_go_on(alone, tmp_path):
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={tmp_path}/a,{tmp_path}/b\n")
    formatted = alone(
        "storage", "format", "-t", "abc", "-c", properties, "--standalone", "--ignore-formatted"
    )
    assert formatted.lines == [
        f"{tmp_path}/{name} needs no formatting: the broker prepares it when it starts." for name in "ab"
    ]
    assert not (tmp_path / "a").exists()
    assert alone("storage", "info", "-c", properties).lines[0] == "Found log directories:"
    missing = alone("storage", "format", "-t", "abc", "-c", tmp_path / "none", code=1)
    assert missing.err == f"{tmp_path}/none cannot be read: No such file or directory.\n"
    assert alone("storage", "format", "-c", properties, code=1).err.startswith(
        "The following arguments are required"
    )
    assert alone("storage", code=1).err.startswith("The action is missing.")
