"""`ottla connect …`"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from ottla.cli import output
from ottla.cli.commands.connect_worker import start
from ottla.cli.errors import JobError
from ottla.cli.http_services import Refused, check_url, service_options
from ottla.cli.options import confirm_or_exit, json_option, pairs_option, yes_option

# Client for Connect workers of Ottla and Apache Kafka.

DEFAULT_URL = "http://localhost:8083"


class ConnectClient:
    def __init__(self, url: str, user: str | None, ca: str | None, timeout: float) -> None:
        from ottla.client.json_server import JsonServer

        check_url(url, "a worker", DEFAULT_URL)
        self._server = JsonServer(url, "a Connect worker", user=user, ca=ca, timeout=timeout)

    def get(self, *path: str, **query: str) -> Any:
        return self.ask("GET", *path, **query)

    def ask(self, method: str, *path: str, body: object = None, **query: str) -> Any:
        """Return the JSON of the response, or None without a body. Raises Refused or JobError."""
        from ottla.client import json_server
        from ottla.client.errors import ClientError, Unreachable

        try:
            return self._server.request(method, json_server.path_of(*path, **query), body)
        except json_server.Refused as error:
            raise Refused(error.status, error.message) from None
        except Unreachable as error:
            raise JobError(
                f"{error.message} Start one with 'ottla connect start', or name another with --url."
            ) from None
        except ClientError as error:
            raise JobError(error.message) from None


#: How to reach a worker; the command gets a `worker` in their place.
worker_options = service_options(
    "worker",
    ConnectClient,
    url_option=("--url", "-u"),
    environment="OTTLA_CONNECT",
    default_url=DEFAULT_URL,
    what="a worker",
    named="a worker",
    timeout=90.0,
)

# Connector configs in files: properties, or JSON as for the REST API.


class ConnectorFile(NamedTuple):
    config: Mapping[str, str]
    #: RUNNING, PAUSED or STOPPED; only JSON can say it.
    initial_state: str | None = None


def read_connector_file(file: Path) -> ConnectorFile:
    """Raises JobError."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise JobError(f"Cannot read {file}: {reason}.") from None
    if not text.lstrip().startswith("{"):
        from ottla.cli.properties import parse_properties

        return ConnectorFile(parse_properties(text))
    try:
        found = json.loads(text)
    except ValueError as error:
        raise JobError(f"{file} is not JSON: {error}.") from None
    config = found.get("config", found) if isinstance(found.get("config", found), dict) else None
    if config is None:
        raise JobError(f"{file}: config must be an object of settings.")
    made = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in config.items()
        if value is not None
    }
    if found.get("name") is not None:
        made["name"] = str(found["name"])
    state = found.get("initial_state") if config is not found else None
    return ConnectorFile(made, None if state is None else str(state))


# `ottla connect`

_LOGGER = "ottla.connect"


@click.group(short_help="Run a Connect worker, and administer connectors.")
def connect() -> None:
    """Run Connect workers, and administer the connectors of Ottla's or Apache Kafka's workers.

    \b
    Examples:
      ottla connect start
      ottla connect create lines connector.class=FileStreamSource file=in.txt topic=lines
      ottla connect list
      ottla connect status lines
      ottla connect restart lines --tasks
      ottla connect offsets lines
    """


connect.add_command(start)


@connect.command("list")
@json_option()
@worker_options
def list_connectors(worker: ConnectClient, as_json: bool) -> None:
    """List the connectors with their state and worker."""
    found = worker.get("connectors", expand="status")
    rows = [
        {
            "name": name,
            "type": each["status"]["type"],
            "state": each["status"]["connector"]["state"],
            "tasks": _tasks(each["status"]["tasks"]),
            "worker": each["status"]["connector"]["worker_id"],
        }
        for name, each in sorted(found.items())
        if "status" in each
    ]
    if as_json:
        output.print_json(rows)
    elif rows:
        output.print_table(["Name", "Type", "State", "Tasks", "Worker"], [list(row.values()) for row in rows])
    else:
        output.note("There are no connectors yet: 'ottla connect create' makes one.")


def _tasks(tasks: list[dict[str, Any]]) -> str:
    running = sum(each["state"] == "RUNNING" for each in tasks)
    failed = sum(each["state"] == "FAILED" for each in tasks)
    return f"{running}/{len(tasks)} running" + (f", {failed} failed" if failed else "")


@connect.command()
@click.argument("name")
@json_option()
@worker_options
def status(worker: ConnectClient, name: str, as_json: bool) -> None:
    """Show the state of a connector and its tasks, and the reasons of failures."""
    found = worker.get("connectors", name, "status")
    if as_json:
        output.print_json(found)
        return
    parts = [("connector", found["connector"]), *((f"task {each['id']}", each) for each in found["tasks"])]
    rows = [[label, each["state"], each["worker_id"], _reason(each.get("trace"))] for label, each in parts]
    output.print_table(["", "State", "Worker", "Reason"], rows)


def _reason(trace: str | None) -> str:
    return (trace or "").strip().partition("\n")[0]


@connect.command()
@click.argument("name")
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]…")
@click.option(
    "--config",
    "-c",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Config file: properties, or JSON as for the REST API. KEY=VALUE overrides it.",
)
@click.option(
    "--state",
    type=click.Choice(["RUNNING", "PAUSED", "STOPPED"], case_sensitive=False),
    help="Initial state.",
)
@click.option("--replace", is_flag=True, help="Replace the config if the connector already exists.")
@worker_options
def create(
    worker: ConnectClient,
    name: str,
    settings: tuple[str, ...],
    file: Path | None,
    state: str | None,
    replace: bool,
) -> None:
    """Create a connector from KEY=VALUE settings, a file, or both."""
    config: dict[str, str] = {}
    if file is not None:
        given = read_connector_file(file)
        config, state = dict(given.config), state or given.initial_state
    for each in settings:
        key, equals, value = each.partition("=")
        if not equals:
            raise click.UsageError(f"'{each}' is not a setting: write KEY=VALUE.")
        config[key] = value
    config["name"] = name
    if replace:
        worker.ask("PUT", "connectors", name, "config", body=config)
        output.done(f"Connector {name} has this config now.")
        return
    body: dict[str, Any] = {"name": name, "config": config}
    if state is not None:
        body["initial_state"] = state.upper()
    worker.ask("POST", "connectors", body=body)
    output.done(f"Created connector {name}.")


def _told(verb: str, path: str, method: str, done: str) -> click.Command:
    @connect.command(path, help=verb)
    @click.argument("names", nargs=-1, required=True, metavar="NAME…")
    @worker_options
    def command(worker: ConnectClient, names: tuple[str, ...]) -> None:
        for name in names:
            worker.ask(method, "connectors", name, path)
            output.done(done.format(name=name))

    return command


_told(
    "Pause connectors: their tasks stop reading, and go on after 'resume'.",
    "pause",
    "PUT",
    "Connector {name} pauses.",
)
_told("Let connectors run again that are paused or stopped.", "resume", "PUT", "Connector {name} runs again.")
_told("Stop connectors: they have no tasks then, and their offsets can be altered.", "stop", "PUT",
      "Connector {name} stops.")  # fmt: skip


@connect.command()
@click.argument("name")
@click.option("--tasks", is_flag=True, help="Restart its tasks as well.")
@click.option("--only-failed", is_flag=True, help="Restart only failed instances.")
@click.option("--task", type=click.IntRange(0), help="Restart only this task.")
@worker_options
def restart(worker: ConnectClient, name: str, tasks: bool, only_failed: bool, task: int | None) -> None:
    """Restart a connector, and with --tasks its tasks as well."""
    if task is not None:
        worker.ask("POST", "connectors", name, "tasks", str(task), "restart")
        output.done(f"Task {task} of connector {name} restarts.")
        return
    query = {}
    if tasks:
        query["includeTasks"] = "true"
    if only_failed:
        query["onlyFailed"] = "true"
    worker.ask("POST", "connectors", name, "restart", **query)
    output.done(f"Connector {name} restarts.")


@connect.command()
@click.argument("name")
@yes_option
@worker_options
def delete(worker: ConnectClient, name: str, yes: bool) -> None:
    """Delete a connector. Its records and offsets remain."""
    confirm_or_exit(f"Delete connector {name}?", yes)
    worker.ask("DELETE", "connectors", name)
    output.done(f"Deleted connector {name}.")


@connect.command()
@click.argument("name", required=False)
@click.option("--level", metavar="LEVEL", help="Set the log level: INFO, DEBUG, TRACE, …")
@click.option(
    "--logger",
    default=_LOGGER,
    show_default=True,
    help="With --level: the logger to change, with all below it.",
)
@click.option("--everywhere", is_flag=True, help="With --level: change all workers of the cluster.")
@worker_options
def logs(worker: ConnectClient, name: str | None, level: str | None, logger: str, everywhere: bool) -> None:
    """Print the traces of failures, or change the log level of workers."""
    if level is not None:
        scope = "cluster" if everywhere else "worker"
        worker.ask("PUT", "admin", "loggers", logger, body={"level": level.upper()}, scope=scope)
        output.done(f"{logger} logs {level.upper()}.")
        return
    names = [name] if name is not None else sorted(worker.get("connectors"))
    said = False
    for each in names:
        found = worker.get("connectors", each, "status")
        for label, part in (
            (each, found["connector"]),
            *((f"{each}-{task['id']}", task) for task in found["tasks"]),
        ):
            if part.get("trace"):
                click.echo(f"{label} ({part['state']} on {part['worker_id']}):")
                click.echo(part["trace"].rstrip() + "\n")
                said = True
    if not said:
        output.note("Nothing has failed.")


@connect.command()
@click.argument("name")
@click.option(
    "--reset",
    is_flag=True,
    help="Delete the offsets, so that the connector starts over. The connector must be stopped.",
)
@pairs_option(
    "--set",
    "-s",
    "offsets",
    help=(
        "Set the next offset of a sink, as TOPIC:PARTITION=OFFSET. The sink must be stopped. May be repeated."
    ),
)
@click.option(
    "--from",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=('Set offsets from JSON as printed by --json, {"offsets": […]}. The connector must be stopped.'),
)
@yes_option
@json_option()
@worker_options
def offsets(
    worker: ConnectClient,
    name: str,
    reset: bool,
    offsets: dict[str, str],
    file: Path | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Show, alter or reset the offsets of a connector."""
    if reset:
        confirm_or_exit(f"Forget the offsets of connector {name}?", yes)
        output.done(_sentence(worker.ask("DELETE", "connectors", name, "offsets")))
        return
    if offsets or file is not None:
        body = _given_offsets(offsets, file)
        output.done(_sentence(worker.ask("PATCH", "connectors", name, "offsets", body=body)))
        return
    found = worker.get("connectors", name, "offsets")
    if as_json:
        output.print_json(found)
        return
    rows = [[json.dumps(each["partition"]), json.dumps(each["offset"])] for each in found["offsets"]]
    if rows:
        output.print_table(["Partition", "Offset"], rows)
    else:
        output.note(f"Connector {name} has committed no offsets yet.")


def _sentence(answer: Any) -> str:
    return f"{answer['message'].rstrip('.')}."


def _given_offsets(offsets: dict[str, str], file: Path | None) -> Any:
    if file is not None:
        try:
            return json.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise JobError(f"Cannot read {file}: {error}.") from None
    entries = []
    for where, offset in offsets.items():
        topic, colon, partition = where.rpartition(":")
        if not colon or not partition.isdecimal() or not offset.isdecimal():
            raise click.UsageError(f"'{where}={offset}' is not TOPIC:PARTITION=OFFSET.")
        entries.append(
            {
                "partition": {"kafka_topic": topic, "kafka_partition": int(partition)},
                "offset": {"kafka_offset": int(offset)},
            }
        )
    return {"offsets": entries}


@connect.command()
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Include converters, transforms and predicates.")
@json_option()
@worker_options
def plugins(worker: ConnectClient, name: str | None, everything: bool, as_json: bool) -> None:
    """List the plugins of a worker, or the settings of one plugin."""
    if name is not None:
        found = worker.get("connector-plugins", name, "config")
        if as_json:
            output.print_json(found)
            return
        rows = [[each["name"], each["type"].lower(), _default(each), each["documentation"]] for each in found]
        output.print_table(["Setting", "Type", "Default", "About"], rows)
        return
    listed = worker.get("connector-plugins", connectorsOnly="false" if everything else "true")
    if as_json:
        output.print_json(listed)
    else:
        rows = [[each["class"], each["type"], each.get("version") or ""] for each in listed]
        output.print_table(["Class", "Type", "Version"], rows)


def _default(setting: dict[str, Any]) -> str:
    if setting["required"]:
        return "(required)"
    return "" if setting["default_value"] is None else str(setting["default_value"])
