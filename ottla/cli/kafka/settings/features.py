"""`kafka-features`"""

from __future__ import annotations

import argparse
import sys

from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.jobs.features import METADATA_VERSION, level_name, levels_of_release, metadata_level
from ottla.cli.kafka import tool
from ottla.cli.kafka.settings.release_features import add_commands, parse_level, run
from ottla.client.admin.features import describe_features, update_features
from ottla.client.connection import Connection

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


@tool.entry_point()
def main(argv: list[str]) -> int | None:
    args = _parser().command(argv)
    if args.command in ("version-mapping", "feature-dependencies"):
        return run(args)
    if args.bootstrap_server and args.bootstrap_controller:
        raise tool.UsageError("Only one of --bootstrap-server or --bootstrap-controller can be specified.")
    args.bootstrap_server = args.bootstrap_server or args.bootstrap_controller
    if not args.bootstrap_server:
        raise tool.UsageError("You must specify either --bootstrap-controller or --bootstrap-server.")
    if args.command == "describe":
        return _describe(tool.connect(args).cluster.any_connection())
    levels = _levels(args)
    if not levels:
        raise JobError(f"You must specify at least one feature to {args.command}")
    client = tool.connect(args)
    return _update(_controller(client, args), levels, args)


def _parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-features", "Show and change the feature levels of a cluster.", """
        --bootstrap-server, --broker-list
        --bootstrap-controller  controllers to connect to instead of brokers
        --command-config
        """,
    )  # fmt: skip
    parser.add_command("describe", "show the features and their levels")
    levels = """
        --metadata RELEASE         old name of metadata.version=…
        --release-version RELEASE  set all features to the levels of a release
        --feature FEATURE=LEVEL*   may be repeated
        --dry-run                  check the change without making it
    """
    unsafe = "--unsafe  allow the loss of metadata"
    parser.add_command("upgrade", "raise features", levels)
    parser.add_command("downgrade", "lower features", f"{levels}{unsafe}")
    parser.add_command("disable", "lower features to 0", f"""
        --feature FEATURE*         may be repeated
        --dry-run                  check the change without making it
        {unsafe}
        """)  # fmt: skip
    add_commands(parser)
    return parser


def _controller(client: Client, args: argparse.Namespace) -> Connection:
    return client.cluster.any_connection() if args.bootstrap_controller else client.cluster.controller()


def _describe(connection: Connection) -> int:
    features, epoch = describe_features(connection)
    for each in features:
        lowest, highest, level = (
            level_name(each.name, value) for value in (each.min_level, each.max_level, each.finalized)
        )
        print(
            f"Feature: {each.name:<42}SupportedMinVersion: {lowest:<17}SupportedMaxVersion: {highest:<17}"
            f"FinalizedVersionLevel: {level:<17}Epoch: {'-' if epoch is None else epoch}"
        )
    return 0


def _levels(args: argparse.Namespace) -> dict[str, int]:
    """Return the requested levels after Kafka's checks."""
    if args.command == "disable":
        named = [(name, 0) for name in args.feature]
    else:
        if args.release_version is not None:
            if args.metadata is not None or args.feature:
                raise JobError("Can not specify `release-version` with other feature flags.")
            levels = levels_of_release(args.release_version)
            keep_zero = args.command == "downgrade"
            return {name: level for name, level in levels.items() if level or keep_zero}
        named = [parse_level(text) for text in args.feature]
        if args.metadata is not None:
            print(" `metadata` flag is deprecated and may be removed in a future release.", file=sys.stderr)
            named.insert(0, (METADATA_VERSION, metadata_level(args.metadata)))
    levels = {}
    for name, level in named:
        if name in levels:
            raise JobError(f"Feature {name} was specified more than once.")
        if level < 0:
            raise JobError("Cannot specify a negative version level.")
        if level == 0 and args.command == "upgrade":
            raise JobError(
                "The upgradeType flag should be set to SAFE_DOWNGRADE or UNSAFE_DOWNGRADE when the provided "
                "maxVersionLevel:0 is < 1."
            )
        levels[name] = level
    return levels


def _update(connection: Connection, levels: dict[str, int], args: argparse.Namespace) -> int:
    action = args.command
    kind = _UPGRADE
    if action != "upgrade":
        kind = _UNSAFE_DOWNGRADE if args.unsafe else _SAFE_DOWNGRADE
    results = update_features(connection, levels, kind, validate_only=args.dry_run)
    failed = 0
    for name, failure in sorted(results.items()):
        if failure is not None:
            failed += 1
            what = f"disable {name}" if action == "disable" else f"{action} {name} to {levels[name]}"
            print(f"{'Can not' if args.dry_run else 'Could not'} {what}. {failure.message}")
        else:
            done = "disabled." if action == "disable" else f"{action}d to {levels[name]}."
            print(f"{name} {'can be' if args.dry_run else 'was'} {done}")
    if failed:
        raise JobError(f"{failed} out of {len(levels)} operation(s) failed.")
    return 0
