"""The table of all routes."""

from __future__ import annotations

from ottla import __version__
from ottla.connect.worker.herder import Herder
from ottla.connect.worker.rest.carrying_out import CarryingOut
from ottla.connect.worker.rest.connectors import Connectors
from ottla.connect.worker.rest.others import Others
from ottla.http import Access, Parameter, Request, Response, RouteDoc, Router, json_response
from ottla.http.router import Handler

_BOOLEAN = {"type": "boolean", "default": False}
_OBJECT = {"type": "object"}
_FORWARD = Parameter("forward", "How often the request was passed on to another worker; set by workers.")

_PARAMETERS = {
    each.name: each
    for each in (
        Parameter("expand", "`status`, `info` or both, for a map of connectors."),
        Parameter("includeTasks", "Whether to restart the tasks as well.", _BOOLEAN),
        Parameter("onlyFailed", "Restart only failed instances.", _BOOLEAN),
        Parameter("connectorsOnly", "Whether to list nothing but connectors.", {"type": "boolean"}),
        Parameter("scope", "`worker` or `cluster`."),
    )
}


def build_router(
    herder: Herder,
    carrying_out: CarryingOut,
    scheme: str,
    *,
    has_api: bool = True,
    has_admin: bool = True,
) -> Router:
    """`has_admin` is false if /admin has separate listeners, and `has_api` is false on those."""
    router = Router(consumes=("application/json",))
    connectors, others = Connectors(herder, carrying_out, scheme), Others(herder, carrying_out)

    def add(
        method: str,
        pattern: str,
        handler: Handler,
        access: Access,
        summary: str,
        parameters: str = "",
        *,
        has_body: bool = False,
    ) -> None:
        found = tuple(_PARAMETERS[name] for name in parameters.split())
        is_forwarded = method != "GET" and "{connector}" in pattern
        doc = RouteDoc(
            summary,
            tags=(pattern.split("/")[1] or "root",),
            parameters=(*found, _FORWARD) if is_forwarded else found,
            request=_OBJECT if has_body else None,
        )
        router.add(method, pattern, handler, access=access, doc=doc)

    c, o, A = connectors, others, Access
    # fmt: off
    if has_api:
        add("GET", "/", o.root, A.USER, "Version of the worker and id of the cluster.")
        add("GET", "/connectors", c.list_connectors, A.VIEWER, "List connectors.", "expand")
        add("POST", "/connectors", c.create, A.ADMIN, "Create a connector.", has_body=True)
        add("GET", "/connectors/{connector}", c.get, A.VIEWER, "A connector with its config and tasks.")
        add("DELETE", "/connectors/{connector}", c.delete, A.ADMIN, "Delete a connector.")
        add("GET", "/connectors/{connector}/config", c.get_config, A.VIEWER, "Its config.")
        add("PUT", "/connectors/{connector}/config", c.put_config, A.ADMIN, "Create or replace it.", has_body=True)
        add("PATCH", "/connectors/{connector}/config", c.patch_config, A.ADMIN, "Change settings.", has_body=True)
        add("GET", "/connectors/{connector}/status", c.get_status, A.VIEWER,
        "States of the connector and its tasks.")
        add("POST", "/connectors/{connector}/restart", c.restart, A.ADMIN, "Restart it.", "includeTasks onlyFailed")
        add("PUT", "/connectors/{connector}/pause", c.pause, A.ADMIN, "Pause it.")
        add("PUT", "/connectors/{connector}/resume", c.resume, A.ADMIN, "Let it run again.")
        add("PUT", "/connectors/{connector}/stop", c.stop, A.ADMIN, "Stop it, without tasks.")
        add("GET", "/connectors/{connector}/tasks", c.get_tasks, A.VIEWER, "Its tasks and their configs.")
        # Workers sign this request for each other, and have no user.
        add("POST", "/connectors/{connector}/tasks", c.put_task_configs, A.ANYONE, "For workers.", has_body=True)
        add("GET", "/connectors/{connector}/tasks/{task}/status", c.get_task_status, A.VIEWER, "How a task is.")
        add("POST", "/connectors/{connector}/tasks/{task}/restart", c.restart_task, A.ADMIN, "Restart a task.")
        add("GET", "/connectors/{connector}/topics", c.get_topics, A.VIEWER, "Topics that it uses.")
        add("PUT", "/connectors/{connector}/topics/reset", c.reset_topics, A.ADMIN, "Forget which topics it has used.")
        add("GET", "/connectors/{connector}/offsets", c.get_offsets, A.VIEWER, "Its offsets.")
        add("PATCH", "/connectors/{connector}/offsets", c.alter_offsets, A.ADMIN, "Alter its offsets.", has_body=True)
        add("DELETE", "/connectors/{connector}/offsets", c.reset_offsets, A.ADMIN, "Reset its offsets.")
        add("GET", "/connector-plugins", o.list_plugins, A.USER, "List plugins.", "connectorsOnly")
        add("GET", "/connector-plugins/{plugin}/config", o.get_plugin_config, A.USER, "The settings of a plugin.")
        add("PUT", "/connector-plugins/{plugin}/config/validate", o.validate, A.ADMIN, "Validate it.", has_body=True)
    add("GET", "/health", o.health, A.ANYONE, "Whether the worker is ready.")
    if has_admin:
        add("GET", "/admin/loggers", o.list_loggers, A.VIEWER, "Loggers and their levels.")
        add("GET", "/admin/loggers/{logger}", o.get_logger, A.VIEWER, "The level of a logger.")
        add("PUT", "/admin/loggers/{logger}", o.set_logger, A.ADMIN, "Set a level.", "scope", has_body=True)
    # fmt: on

    document = router.openapi("Kafka Connect", __version__)

    def openapi(_request: Request) -> Response:
        return json_response(document)

    router.add("GET", "/openapi.json", openapi, access=Access.USER)
    return router
