"""Configured response headers: CORS, and `response.http.headers.config`."""

from __future__ import annotations

import csv
import fnmatch
import re

from ottla.connect.config.config_def import ConfigError
from ottla.connect.config.worker_config import WorkerConfig
from ottla.http import Request, Response
from ottla.http.dispatch import Decorate

_RULE = re.compile(r"(?P<action>\w+)\s+(?P<name>[^:\s]+)\s*:\s*(?P<value>.+)", re.DOTALL)
_ACTIONS = ("set", "add", "setdate", "adddate")


def response_headers(worker: WorkerConfig) -> Decorate | None:
    """Return None if no headers are configured. Raises ConfigError."""
    origins = allowed_origins(worker)
    methods = worker.values["access.control.allow.methods"].strip() or "GET,POST,HEAD"
    fixed = _rules(worker.values["response.http.headers.config"])
    if not origins and not fixed:
        return None

    def decorate(request: Request, response: Response) -> Response:
        headers = {**(response.headers or {}), **fixed}
        origin = request.headers.get("origin")
        if origin and any(fnmatch.fnmatchcase(origin, each) for each in origins):
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Allow-Credentials"] = "true"
            headers["Vary"] = "Origin"
            if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
                # Browsers send preflight requests without credentials, so always answer them.
                headers["Access-Control-Allow-Methods"] = methods
                headers["Access-Control-Allow-Headers"] = (
                    "X-Requested-With,Content-Type,Accept,Origin,Authorization"
                )
                headers.pop("WWW-Authenticate", None)
                return Response(200, b"", None, headers)
        response.headers = headers
        return response

    return decorate


def allowed_origins(worker: WorkerConfig) -> list[str]:
    """Return the origins that may call the worker. `*` in them matches anything."""
    given = worker.values["access.control.allow.origin"].split(",")
    return [each.strip() for each in given if each.strip()]


def _rules(text: str) -> dict[str, str]:
    """Parse `set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store"`. Rules with commas are quoted."""
    found = {}
    for [*rules] in csv.reader([text], skipinitialspace=True):
        for rule in filter(None, (each.strip() for each in rules)):
            parsed = _RULE.fullmatch(rule)
            if parsed is None or parsed["action"].lower() not in _ACTIONS:
                raise ConfigError(
                    f"response.http.headers.config has '{rule}': write 'set NAME: VALUE' or 'add NAME: VALUE'."
                )
            if not parsed["action"].lower().endswith("date"):
                found[parsed["name"]] = parsed["value"].strip()
    return found
