"""Connectors, over Connect's REST: any Connect will do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.client.errors import ClientError
from ottla.console.access.roles import Level
from ottla.console.remote import NotThere, Remote, part
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.plan import Change, Plan, is_confirmed, plan_page
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

CONNECTOR = f"{CLUSTER}/connectors/{{connector}}"
ACTIONS = {
    "restart": ("POST", "/restart?includeTasks=true"),
    "pause": ("PUT", "/pause"),
    "resume": ("PUT", "/resume"),
    "stop": ("PUT", "/stop"),
}
HIDDEN = "•••"
# Without a definition that says so: what is called so is nobody's business.
_SECRET = re.compile(r"password|secret|token|credential|sasl\.jaas|private|api\.?key", re.IGNORECASE)
# A connector has a config first and a status only when a worker has taken it up.
_NOT_STARTED: dict[str, Any] = {"connector": {"state": "UNASSIGNED"}}


def routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/connectors", connectors, everywhere=True)
    yield Route("GET", f"{CLUSTER}/new-connector", new_form, Level.OPERATOR, everywhere=True, json=False)
    yield Route("POST", f"{CLUSTER}/new-connector", save, Level.OPERATOR, everywhere=True)
    yield Route("GET", f"{CONNECTOR}/state", state, everywhere=True)
    yield Route("GET", f"{CONNECTOR}/edit", edit_form, Level.OPERATOR, everywhere=True, json=False)
    yield Route("POST", f"{CONNECTOR}/act", act, Level.OPERATOR, everywhere=True)
    yield Route("POST", f"{CONNECTOR}/delete", delete, Level.ADMIN, everywhere=True)


def remote_of(visit: Visit) -> Remote:
    """Raises HttpError 404."""
    url = visit.site.settings.connect
    if url is None:
        raise HttpError(
            404, 404, "This cluster has no Connect: give the console the URL of a worker with --connect."
        )
    return Remote(url, "Connect")


async def connectors(visit: Visit) -> Page | Response:
    remote = remote_of(visit)
    return Page(
        "connectors/connectors.html", {"connectors": await visit.site.calls.run(all_connectors, remote)}
    )


def all_connectors(remote: Remote) -> list[dict[str, Any]]:
    """Two requests, however many there are."""
    statuses = remote.request("GET", "/connectors?expand=status") or {}
    infos = remote.request("GET", "/connectors?expand=info") or {}
    rows = []
    for name in sorted({*statuses, *infos}):
        status = statuses.get(name, {}).get("status", _NOT_STARTED)
        info = infos.get(name, {}).get("info", {})
        tasks = status.get("tasks", [])
        rows.append(
            {
                "name": name,
                "type": info.get("type") or status.get("type", ""),
                "class": info.get("config", {}).get("connector.class", ""),
                "state": status.get("connector", {}).get("state", ""),
                "tasks": len(tasks),
                "failed": sum(each.get("state") == "FAILED" for each in tasks),
                "topics": topics_in(info.get("config", {})),
            }
        )
    return rows


def topics_in(config: Mapping[str, str]) -> list[str]:
    found = [*config.get("topics", "").split(","), *config.get("topic", "").split(",")]
    return sorted({each.strip() for each in found if each.strip()})


async def state(visit: Visit) -> Page | Response:
    remote, name = remote_of(visit), visit.params["connector"]

    def read() -> dict[str, Any]:
        path = f"/connectors/{part(name)}"
        config = remote.request("GET", f"{path}/config")
        try:
            status = remote.request("GET", f"{path}/status")
        except NotThere:
            status = _NOT_STARTED
        try:
            topics = remote.request("GET", f"{path}/topics").get(name, {}).get("topics", [])
        except ClientError:
            topics = []  # a worker that does not keep track of them
        return {
            "name": name,
            "type": status.get("type", ""),
            "connector": status.get("connector", {}),
            "tasks": status.get("tasks", []),
            "topics": sorted({*topics, *topics_in(config)}),
            "config": without_secrets(config),
        }

    return Page(
        "connectors/connector.html", await visit.site.calls.run(read), more={"actions": list(ACTIONS)}
    )


def without_secrets(config: Mapping[str, str]) -> dict[str, str]:
    """References such as ${file:…} are no secrets."""
    return {
        key: HIDDEN if _SECRET.search(key) and value and not str(value).startswith("${") else value
        for key, value in sorted(config.items())
    }


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


async def new_form(visit: Visit) -> Page | Response:
    remote = remote_of(visit)
    plugins = await visit.site.calls.run(remote.request, "GET", "/connector-plugins")
    chosen = visit.query.get("class", "")
    fields = []
    if chosen:
        fields = await visit.site.calls.run(_fields, remote, {"connector.class": chosen, "name": ""})
    names = sorted({str(each.get("class", "")) for each in plugins})
    return _form(visit, "", {"connector.class": chosen}, fields, names, None)


async def edit_form(visit: Visit) -> Page | Response:
    remote, name = remote_of(visit), visit.params["connector"]

    def read() -> tuple[dict[str, str], list[dict[str, Any]]]:
        config = remote.request("GET", f"/connectors/{part(name)}/config")
        return config, _fields(remote, config)

    config, fields = await visit.site.calls.run(read)
    return _form(visit, name, config, fields, [], None)


def _form(
    visit: Visit,
    name: str,
    config: Mapping[str, str],
    fields: list[dict[str, Any]],
    plugins: list[str],
    problem: str | None,
    status: int = 200,
) -> Page:
    known = {each["name"] for each in fields}
    extra = {key: value for key, value in config.items() if key not in known and key not in ("name",)}
    more = {
        "name": name,
        "connector_class": config.get("connector.class", ""),
        "fields": fields,
        "plugins": plugins,
        "extra": "\n".join(f"{key} = {value}" for key, value in without_secrets(extra).items()
                           if key != "connector.class"),
        "problem": problem,
        "hidden": HIDDEN,
    }  # fmt: skip
    return Page("connectors/form.html", {}, status, more)


def _fields(remote: Remote, config: Mapping[str, str]) -> list[dict[str, Any]]:
    """The settings of a connector with what Connect says of each value; what is needed or wrong comes first."""
    name = config["connector.class"].rpartition(".")[2]
    checked = remote.request("PUT", f"/connector-plugins/{part(name)}/config/validate", dict(config))
    fields = []
    for each in checked.get("configs", []):
        # What is wrong with a setting that the connector does not define comes without a definition.
        definition, value = each.get("definition") or {}, each.get("value") or {}
        key = definition.get("name") or value.get("name", "")
        if key in ("name", "connector.class") or value.get("visible") is False:
            continue
        is_secret = definition.get("type") == "PASSWORD" or bool(_SECRET.search(key))
        given = config.get(key)
        fields.append(
            {
                "name": key,
                "label": definition.get("display_name") or key,
                "required": bool(definition.get("required")),
                "importance": definition.get("importance", ""),
                "documentation": definition.get("documentation", ""),
                "default": definition.get("default_value"),
                "value": HIDDEN if is_secret and given else "" if given is None else given,
                "secret": is_secret,
                "choices": [str(choice) for choice in value.get("recommended_values") or []],
                "errors": list(value.get("errors") or []),
                "is_shown": bool(definition.get("required") or given is not None or value.get("errors")
                                 or definition.get("importance") == "HIGH"),
            }
        )  # fmt: skip
    return sorted(
        fields, key=lambda field: (not field["errors"], not field["required"], not field["is_shown"])
    )


async def save(visit: Visit) -> Page | Response:
    """Checked by Connect first; what it says stands beside each field."""
    remote = remote_of(visit)
    name, given_class = visit.needed("connector_name"), visit.needed("connector.class")
    config = {"connector.class": given_class, "name": name}
    for key, value in visit.fields:
        if key.startswith("config:") and value.strip():
            config[key.removeprefix("config:")] = value.strip()
    for line in visit.form.get("extra", "").splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip():
            config[key.strip()] = value.strip()

    def check() -> tuple[dict[str, str], dict[str, str], list[dict[str, Any]]]:
        try:
            before = remote.request("GET", f"/connectors/{part(name)}/config")
        except ClientError:
            before = {}
        # What was hidden from the form, and was not written anew, stays as it is.
        whole = {key: before.get(key, value) if value == HIDDEN else value for key, value in config.items()}
        return before, whole, _fields(remote, whole)

    before, config, fields = await visit.site.calls.run(check)
    wrong = [f"{field['name']}: {text}" for field in fields for text in field["errors"]]
    if wrong:
        return _form(visit, name, config, fields, [], "Connect refuses it: see below.", 400)
    if is_confirmed(visit):
        await visit.site.calls.run(remote.request, "PUT", f"/connectors/{part(name)}/config", config)
        await visit.log("configure connector", name, details=without_secrets(config))
        return visit.redirect(visit.url("connectors", name, "state"), f"Connector '{name}' was configured.")
    shown_before, shown_after = without_secrets(before), without_secrets(config)
    changes = [
        Change(key, shown_before.get(key, ""), shown_after.get(key, "removed"))
        for key in sorted({*before, *config})
        if before.get(key) != config.get(key)
    ]
    title = f"Configure connector {name}" if before else f"Create connector {name}"
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
