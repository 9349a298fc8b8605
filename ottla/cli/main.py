"""The `ottla` command: finds the subcommand, loads only that one, and turns every failure into a sentence."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

from ottla import __version__
from ottla.cli import output
from ottla.cli.errors import JobError, missing_package
from ottla.cli.output import discard_output, unwritable

# name → module and attribute; imported when used, so that every command starts fast.
COMMANDS = {
    "start": "ottla.cli.commands.servers.start:start",
    "topics": "ottla.cli.commands.topics:topics",
    "produce": "ottla.cli.commands.produce:produce",
    "consume": "ottla.cli.commands.consume:consume",
    "groups": "ottla.cli.commands.groups:groups",
    "configs": "ottla.cli.commands.configs:configs",
    "cluster": "ottla.cli.commands.cluster.cluster:cluster",
    "apply": "ottla.cli.commands.cluster.apply:apply",
    "export": "ottla.cli.commands.cluster.apply:export_",
    "backup": "ottla.cli.commands.cluster.backup:backup",
    "restore": "ottla.cli.commands.cluster.backup:restore",
    "config": "ottla.cli.commands.config:config",
    "users": "ottla.cli.commands.security.users:users",
    "acls": "ottla.cli.commands.security.acls:acls",
    "certs": "ottla.cli.commands.security.certs:certs",
    "sql": "ottla.cli.commands.sql.sql:sql",
    "pipeline": "ottla.cli.commands.pipeline:pipeline",
    "connect": "ottla.cli.commands.connect:connect",
    "keys": "ottla.cli.commands.keys:keys",
    "console": "ottla.cli.commands.servers.console:console",
    "deadletter": "ottla.cli.commands.deadletter:deadletter",
    "demo": "ottla.cli.commands.demo:demo",
    "registry": "ottla.cli.commands.servers.registry:registry",
    "rest": "ottla.cli.commands.servers.rest:rest",
    "audit": "ottla.cli.commands.cluster.audit:audit",
    "canary": "ottla.cli.commands.servers.canary:canary",
    "capacity": "ottla.cli.commands.cluster.capacity:capacity",
    "mcp": "ottla.cli.commands.servers.mcp:mcp",
    "mirror": "ottla.cli.commands.mirror:mirror",
    "fake": "ottla.cli.commands.servers.fake:fake",
    "exporter": "ottla.cli.commands.servers.exporter:exporter",
    "schema": "ottla.cli.commands.schema:schema",
    "tables": "ottla.cli.commands.tables:tables",
    "zookeeper": "ottla.cli.commands.servers.zookeeper:zookeeper",
    "install": "ottla.cli.commands.install:install",
    "completion": "ottla.cli.commands.completion:completion",
}

# Other names of commands, which the help does not list.
ALIASES = {"dead-letters": "deadletter"}

# Kafka's tools whose job has no command of our own, with Kafka's options: `ottla get-offsets` is `kafka-get-offsets`.
KAFKA_TOOLS = {
    "broker-api-versions": "ottla.cli.kafka.broker_api_versions",
    "console-share-consumer": "ottla.cli.kafka.console.console_consumer:main_share",
    "consumer-perf-test": "ottla.cli.kafka.perf.consumer_perf_test",
    "delegation-tokens": "ottla.cli.kafka.delegation_tokens",
    "delete-records": "ottla.cli.kafka.partitions.delete_records",
    "dump-log": "ottla.cli.kafka.dump_log",
    "e2e-latency": "ottla.cli.kafka.perf.e2e_latency",
    "features": "ottla.cli.kafka.settings.features",
    "get-offsets": "ottla.cli.kafka.partitions.get_offsets",
    "leader-election": "ottla.cli.kafka.partitions.leader_election",
    "log-dirs": "ottla.cli.kafka.partitions.log_dirs",
    "preferred-replica-election": "ottla.cli.kafka.partitions.leader_election:main_preferred",
    "producer-perf-test": "ottla.cli.kafka.perf.producer_perf_test",
    "reassign-partitions": "ottla.cli.kafka.partitions.reassign_partitions",
    "share-consumer-perf-test": "ottla.cli.kafka.perf.consumer_perf_test:main_share",
    "share-groups": "ottla.cli.kafka.groups.consumer_groups:main_share",
    "streams-application-reset": "ottla.cli.kafka.groups.streams_application_reset",
    "streams-groups": "ottla.cli.kafka.groups.streams_groups",
    "transactions": "ottla.cli.kafka.transactions",
    "verifiable-consumer": "ottla.cli.kafka.verifiable_consumer",
    "verifiable-producer": "ottla.cli.kafka.verifiable_producer",
    "verifiable-share-consumer": "ottla.cli.kafka.verifiable_consumer:main_share",
}


class LazyGroup(click.Group):
    def list_commands(self, _context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        target = COMMANDS.get(ALIASES.get(name, name))
        if target is None:
            return None
        module, _, attribute = target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in (*COMMANDS, *ALIASES) and not args[0].startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(args[0], (*COMMANDS, *KAFKA_TOOLS), n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            context.fail(f"There is no command '{args[0]}'.{hint}")
        return super().resolve_command(context, args)


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="ottla")
@click.pass_context
def cli(context: click.Context) -> None:
    """Kafka for Python people: start a broker, and administer any Kafka cluster.

    \b
    Examples:
      ottla start
      ottla topics create orders --partitions 3
      echo hello | ottla produce orders
      ottla consume orders --from-beginning
      ottla demo

    `ottla COMMAND --help` explains each command. The default cluster is localhost:9092; change it with
    --bootstrap-server or OTTLA_BOOTSTRAP_SERVER. Kafka's other tools are commands as well, with Kafka's options:
    `ottla reassign-partitions` is `kafka-reassign-partitions`.
    """
    if os.environ.get("NO_COLOR"):
        context.color = False


def main(args: Sequence[str] | None = None) -> None:
    sys.exit(run(args))


def run(args: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if args is None else list(args)
    if words and words[0] in KAFKA_TOOLS:
        sys.argv = [f"kafka-{words[0]}", *words[1:]]
        module, _, function = KAFKA_TOOLS[words[0]].partition(":")
        getattr(importlib.import_module(module), function or "main")()
    try:
        code = cli.main(args=args, prog_name="ottla", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except JobError as error:
        output.fail(error.message)
        return 1
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo(err=True)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is left to say.
        discard_output()
        return 141
    except Exception as error:
        if isinstance(error, OSError) and (sentence := unwritable(error)) is not None:
            output.fail(sentence)
            discard_output()
            return 1
        if os.environ.get("OTTLA_DEBUG"):
            raise
        if isinstance(error, ModuleNotFoundError) and (sentence := missing_package(error)) is not None:
            output.fail(sentence)
            return 1
        output.fail(
            f"This is a bug in ottla: {type(error).__name__}: {error}. OTTLA_DEBUG=1 shows where it happened."
        )
        return 70


if __name__ == "__main__":
    main()
