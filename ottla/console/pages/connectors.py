"""Connectors, through Connect's REST API, of any Connect implementation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ottla.client.errors import ClientError
from ottla.console.access.hidden_values import HIDDEN, ConnectorConfig
from ottla.console.access.roles import Level
from ottla.console.services.connect import NOT_STARTED, all_connectors, topics_in
from ottla.console.services.remote import NotThere, Remote, part
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.paging import Change, Plan, is_confirmed, plan_page
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

CONNECTOR = f"{CLUSTER}/connectors/{{connector}}"
ACTIONS = {
    "restart": ("POST", "/restart?includeTasks=true"),
    "pause": ("PUT", "/pause"),
    "resume": ("PUT", "/resume"),
    "stop": ("PUT", "/stop"),
}


def routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/connectors", connectors, of="connector")
    yield Route("GET", f"{CLUSTER}/new-connector", new_form, Level.OPERATOR, of="connector", json=False)
    yield Route("POST", f"{CLUSTER}/new-connector", save, Level.OPERATOR, of="connector")
    yield Route("GET", f"{CONNECTOR}/state", state, of="connector")
    yield Route("GET", f"{CONNECTOR}/edit", edit_form, Level.OPERATOR, of="connector", json=False)
    yield Route("POST", f"{CONNECTOR}/act", act, Level.OPERATOR, of="connector")
    yield Route("POST", f"{CONNECTOR}/delete", delete, Level.ADMIN, of="connector")


def remote_of(visit: Visit) -> Remote:
    """Raises HttpError 404."""
    url = visit.site.settings.connect
    if url is None:
        raise HttpError(
            404, 404, "This cluster has no Connect: give the console the URL of a worker with --connect."
        )
    return Remote(url, "Connect")


async def connectors(visit: Visit) -> Page | Response:
    sees = visit.user.view("connector")
    rows = await visit.site.calls.run(all_connectors, remote_of(visit))
    return Page("connectors/connectors.html", {"connectors": [row for row in rows if sees(row["name"])]})


async def state(visit: Visit) -> Page | Response:
    remote, name = remote_of(visit), visit.params["connector"]

    def read() -> dict[str, Any]:
        path = f"/connectors/{part(name)}"
        config = _read_config(remote, name)
        try:
            status = remote.request("GET", f"{path}/status")
        except NotThere:
            status = NOT_STARTED
        try:
            topics = remote.request("GET", f"{path}/topics").get(name, {}).get("topics", [])
        except ClientError:
            topics = []  # the worker does not track topics
        return {
            "name": name,
            "type": status.get("type", ""),
            "connector": _without_secrets(config, status.get("connector", {})),
            "tasks": [_without_secrets(config, each) for each in status.get("tasks", [])],
            "topics": sorted({*topics, *topics_in(config.values)}),
            "config": config.shown(),
        }

    return Page(
        "connectors/connector.html", await visit.site.calls.run(read), more={"actions": list(ACTIONS)}
    )


def _read_config(remote: Remote, name: str) -> ConnectorConfig:
    values = remote.request("GET", f"/connectors/{part(name)}/config")
    return ConnectorConfig(values, _types(remote, values.get("connector.class", "")))


def _types(remote: Remote, connector_class: str) -> dict[str, str]:
    """Return the types of a connector's settings; none if the worker is older or does not know the class."""
    try:
        definitions = remote.request("GET", f"/connector-plugins/{part(_plugin(connector_class))}/config")
        return {str(each["name"]): str(each.get("type", "")) for each in definitions}
    except (ClientError, KeyError, TypeError):
        return {}


def _plugin(connector_class: str) -> str:
    return connector_class.rpartition(".")[2]


def _without_secrets(config: ConnectorConfig, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a connector or task without secrets: traces often quote URLs and settings."""
    return {key: config.scrubbed(value) if key == "trace" else value for key, value in state.items()}


async def act(visit: Visit) -> Page | Response:
    remote, name = remote_of(visit), visit.params["connector"]
    action = visit.needed("action")
    task = visit.form.get("task", "")
    if task.isdecimal() and action == "restart":
        method, path = "POST", f"/tasks/{task}/restart"
    elif action in ACTIONS:
        method, path = ACTIONS[action]
    else:
        raise HttpError(400, 400, f"There is only {', '.join(ACTIONS)}.")
    target = f"{name} task {task}" if task else name
    try:
        await visit.site.calls.run(remote.request, method, f"/connectors/{part(name)}{path}")
    except ClientError as error:
        await visit.log(f"{action} connector", target, f"failed: {error.message}")
        raise
    await visit.log(f"{action} connector", target)
    done = {"restart": "restarted", "pause": "paused", "resume": "resumed", "stop": "stopped"}[action]
    return visit.redirect(visit.url("connectors", name, "state"), f"{target} is being {done}.")


# -- configuration --


def _refuse_masked(visit: Visit) -> None:
    """Raises HttpError 403 for users with masked messages: a connector could copy the messages elsewhere."""
    if visit.app.hides_messages(visit.user):
        raise HttpError(
            403,
            403,
            "Some messages are masked for you, and a connector could copy them: an admin configures it.",
        )


async def new_form(visit: Visit) -> Page | Response:
    _refuse_masked(visit)
    remote = remote_of(visit)
    plugins = await visit.site.calls.run(remote.request, "GET", "/connector-plugins")
    chosen = visit.query.get("class", "")
    fields = []
    config = ConnectorConfig({"connector.class": chosen}, {})
    if chosen:
        # Nothing was typed yet, so nothing is wrong yet.
        empty = {"connector.class": chosen, "name": ""}
        fields = await visit.site.calls.run(_fields, remote, empty, config, check=False)
    names = sorted({str(each.get("class", "")) for each in plugins})
    return _form(visit, "", config, fields, names, None)


async def edit_form(visit: Visit) -> Page | Response:
    _refuse_masked(visit)
    remote, name = remote_of(visit), visit.params["connector"]

    def read() -> tuple[ConnectorConfig, list[dict[str, Any]]]:
        config = _read_config(remote, name)
        return config, _fields(remote, config.values, config)

    config, fields = await visit.site.calls.run(read)
    return _form(visit, name, config, fields, [], None)


def _form(
    visit: Visit,
    name: str,
    config: ConnectorConfig,
    fields: list[dict[str, Any]],
    plugins: list[str],
    problem: str | None,
    status: int = 200,
) -> Page:
    known = {each["name"] for each in fields}
    extra = {
        key: value
        for key, value in config.shown().items()
        if key not in known and key not in ("name", "connector.class")
    }
    more = {
        "name": name,
        "connector_class": config.values.get("connector.class", ""),
        "fields": fields,
        "plugins": plugins,
        "extra": "\n".join(f"{key} = {value}" for key, value in extra.items()),
        "problem": problem,
    }
    return Page("connectors/form.html", {}, status, more)


def _fields(
    remote: Remote, values: Mapping[str, str], config: ConnectorConfig, *, check: bool = True
) -> list[dict[str, Any]]:
    """Return the settings of a connector with Connect's findings; required and wrong ones come first.

    Without `check` Connect does not see the values: a check may connect to the server that they name.
    """
    plugin = part(_plugin(values["connector.class"]))
    asked = dict(values) if check else {"connector.class": values["connector.class"], "name": values["name"]}
    checked = remote.request("PUT", f"/connector-plugins/{plugin}/config/validate", asked)
    shown = config.shown()
    fields = []
    for each in checked.get("configs", []):
        # Errors about undefined settings have no definition.
        definition, value = each.get("definition") or {}, each.get("value") or {}
        key = definition.get("name") or value.get("name", "")
        if key in ("name", "connector.class") or value.get("visible") is False:
            continue
        is_secret = definition.get("type") == "PASSWORD" or config.is_secret(key)
        given = shown.get(key)
        fields.append(
            {
                "name": key,
                "label": definition.get("display_name") or key,
                "required": bool(definition.get("required")),
                "importance": definition.get("importance", ""),
                "documentation": definition.get("documentation", ""),
                "default": None if is_secret else definition.get("default_value"),
                "value": HIDDEN if is_secret and given else given or "",
                "secret": is_secret,
                "choices": [str(choice) for choice in value.get("recommended_values") or []],
                "errors": [config.scrubbed(str(each)) for each in value.get("errors") or [] if check],
                "is_shown": bool(definition.get("required") or given is not None or (check and value.get("errors"))
                                 or definition.get("importance") == "HIGH"),
            }
        )  # fmt: skip
    return sorted(
        fields, key=lambda field: (not field["errors"], not field["required"], not field["is_shown"])
    )


async def save(visit: Visit) -> Page | Response:
    """Let Connect check the config first. The form shows its findings beside each field."""
    remote = remote_of(visit)
    name, given_class = visit.needed("connector_name"), visit.needed("connector.class")
    visit.require_of("connector", Level.OPERATOR, name)
    _refuse_masked(visit)
    given = {"connector.class": given_class, "name": name}
    for key, value in visit.fields:
        if key.startswith("config:") and value.strip():
            given[key.removeprefix("config:")] = value.strip()
    for line in visit.form.get("extra", "").splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip():
            given[key.strip()] = value.strip()

    def check() -> tuple[ConnectorConfig, ConnectorConfig, list[dict[str, Any]], list[str]]:
        try:
            before = _read_config(remote, name)
        except NotThere:
            before = ConnectorConfig({}, {})
        whole, again = before.completed(given)
        values = {key: value for key, value in whole.items() if key not in again}
        config = ConnectorConfig(values, _types(remote, given_class))
        return before, config, _fields(remote, values, config, check=not again), again

    before, config, fields, again = await visit.site.calls.run(check)
    if again:
        problem = (
            f"Enter {', '.join(again)} again: a hidden value is kept only while the connector talks to the same "
            "servers in the same way."
        )
        return _form(visit, name, config, fields, [], problem, 400)
    if any(field["errors"] for field in fields):
        return _form(visit, name, config, fields, [], "Connect refuses it: see below.", 400)
    if is_confirmed(visit):
        try:
            await visit.site.calls.run(
                remote.request, "PUT", f"/connectors/{part(name)}/config", config.values
            )
        except ClientError as error:
            await visit.log("configure connector", name, f"failed: {config.scrubbed(error.message)}")
            error.message = config.scrubbed(error.message)
            raise
        await visit.log("configure connector", name, details=config.shown())
        return visit.redirect(visit.url("connectors", name, "state"), f"Connector '{name}' was configured.")
    shown_before, shown_after = before.shown(), config.shown()
    changes = [
        Change(key, shown_before.get(key, ""), shown_after.get(key, "removed"))
        for key in sorted({*before.values, *config.values})
        if before.values.get(key) != config.values.get(key)
    ]
    title = f"Configure connector {name}" if before.values else f"Create connector {name}"
    return plan_page(visit, Plan(title, changes, "Save", visit.url("connectors")))


async def delete(visit: Visit) -> Page | Response:
    remote, name = remote_of(visit), visit.params["connector"]
    if is_confirmed(visit, name):
        await visit.site.calls.run(remote.request, "DELETE", f"/connectors/{part(name)}")
        await visit.log("delete connector", name)
        return visit.redirect(visit.url("connectors"), f"Connector '{name}' was deleted.")
    plan = Plan(f"Delete connector {name}", [Change("connector", name, "deleted")], "Delete connector",
                visit.url("connectors", name, "state"), is_dangerous=True, typed=name)  # fmt: skip
    return plan_page(visit, plan)
