"""The /connectors endpoints: list, inspect, create, change and control connectors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from ottla.connect.worker import errors
from ottla.connect.worker.config_state import RestartRequest
from ottla.connect.worker.distributed.requests_to_leader import BadSignature, check_signature
from ottla.connect.worker.errors import RequestError
from ottla.connect.worker.herder import Created, Herder
from ottla.connect.worker.rest.carrying_out import CarryingOut
from ottla.connect.worker.rest.requests import (
    flag,
    http_error,
    initial_state,
    named,
    read_config,
    read_json,
    read_object,
    read_offsets,
    read_patch,
    task_number,
)
from ottla.connect.worker.secrets import masked
from ottla.http import Access, HttpError, Request, Response, json_response

_CREATE_FIELDS = ("name", "config", "initial_state")


def _nothing(status: int) -> Any:
    return lambda _result: Response(status, b"", None)


class Connectors:
    """`scheme` is the listener's, for URLs in responses."""

    def __init__(self, herder: Herder, carrying_out: CarryingOut, scheme: str) -> None:
        self._herder = herder
        self._do = carrying_out.answer
        self._scheme = scheme

    # Reading

    def list_connectors(self, request: Request) -> Response:
        expand = [value for name, value in request.query_values() if name == "expand"]
        names = self._herder.names()
        if not expand:
            return json_response(names)
        found = {}
        for name in names:
            try:
                found[name] = {
                    **({"status": self._herder.status(name)} if "status" in expand else {}),
                    **({"info": _shown_info(request, self._herder.info(name))} if "info" in expand else {}),
                }
            except RequestError:
                continue  # deleted in the meantime, or not started yet
        return json_response(found)

    async def get(self, request: Request) -> Response:
        def respond(info: Any) -> Response:
            return json_response(_shown_info(request, info))

        return await self._do(request, partial(self._herder.info, _name(request)), respond)

    async def get_config(self, request: Request) -> Response:
        def respond(config: Any) -> Response:
            return json_response(_shown_config(request, config))

        return await self._do(request, partial(self._herder.config, _name(request)), respond)

    async def get_status(self, request: Request) -> Response:
        return await self._do(request, partial(self._herder.status, _name(request)), json_response)

    async def get_tasks(self, request: Request) -> Response:
        def respond(tasks: Any) -> Response:
            return json_response([_shown_info(request, each) for each in tasks])

        return await self._do(request, partial(self._herder.task_infos, _name(request)), respond)

    async def get_task_status(self, request: Request) -> Response:
        call = partial(self._herder.task_status, _name(request), task_number(request))
        return await self._do(request, call, json_response)

    # Topics

    def get_topics(self, request: Request) -> Response:
        self._check_tracking("topic.tracking.enable", "Topic tracking is disabled.")
        name = _name(request)
        return json_response({name: {"topics": self._herder.topics(name)}})

    def reset_topics(self, request: Request) -> Response:
        self._check_tracking("topic.tracking.enable", "Topic tracking is disabled.")
        self._check_tracking("topic.tracking.allow.reset", "Topic tracking reset is disabled.")
        self._herder.reset_topics(_name(request))
        return Response(202, b"", None)

    def _check_tracking(self, setting: str, message: str) -> None:
        if not self._herder.worker.values[setting]:
            raise HttpError(403, 403, message)

    # Configs

    async def create(self, request: Request) -> Response:
        body = await request.body()
        try:
            fields = read_object(body)
            unknown = [each for each in fields if each not in _CREATE_FIELDS]
            if unknown:
                known = ", ".join(_CREATE_FIELDS)
                raise errors.bad_request(f'Unrecognized field "{unknown[0]}": there are {known}.')
            if not isinstance(fields.get("config"), dict):
                raise errors.bad_request("The request has no config: give an object with the settings.")
            config = read_config(fields["config"])
            name = str(fields.get("name") or config.get("name", "")).strip()
            config = named(name, config)
            target = initial_state(fields.get("initial_state"))
        except RequestError as error:
            raise http_error(error) from None
        call = partial(self._herder.create, name, config, target)
        answer = await self._do(request, call, lambda created: json_response(created.info, 201), body)
        return self._located(request, name, answer)

    def _located(self, request: Request, name: str, answer: Response) -> Response:
        if answer.status == 201:
            base = f"{self._scheme}://{request.headers.get('host', '')}"
            answer.headers = {"Location": f"{base}/connectors/{quote(name, safe='')}"}
        return answer

    async def put_config(self, request: Request) -> Response:
        body = await request.body()
        name = _name(request)
        try:
            config = named(name, read_config(read_json(body)))
        except RequestError as error:
            raise http_error(error) from None

        def respond(created: Created) -> Response:
            return json_response(created.info, 201 if created.is_new else 200)

        answer = await self._do(request, partial(self._herder.put_config, name, config), respond, body)
        return self._located(request, name, answer)

    async def patch_config(self, request: Request) -> Response:
        body = await request.body()
        name = _name(request)
        try:
            patch = read_patch(read_json(body))
            named(name, {"name": patch.get("name") or name})
        except RequestError as error:
            raise http_error(error) from None
        call = partial(self._herder.patch_config, name, patch)
        return await self._do(request, call, lambda created: json_response(created.info), body)

    async def delete(self, request: Request) -> Response:
        return await self._do(request, partial(self._herder.delete, _name(request)), _nothing(204))

    async def put_task_configs(self, request: Request) -> Response:
        """Accepts task configs from other workers, which sign them with the session key."""
        body = await request.body()
        state, worker = self._herder.configs.state(), self._herder.worker
        allowed = worker.values.get("inter.worker.verification.algorithms", [])
        try:
            check_signature(state.session_key, allowed, request.headers, body)
            configs = [read_config(each) for each in read_json(body)]
        except BadSignature as error:
            missing = "missing" in str(error)
            raise HttpError(400 if missing else 403, 400 if missing else 403, str(error)) from None
        except RequestError as error:
            raise http_error(error) from None
        call = partial(self._herder.put_task_configs, _name(request), configs)
        return await self._do(request, call, _nothing(204), body)

    # Control

    async def pause(self, request: Request) -> Response:
        return await self._do(request, partial(self._herder.pause, _name(request)), _nothing(202))

    async def resume(self, request: Request) -> Response:
        return await self._do(request, partial(self._herder.resume, _name(request)), _nothing(202))

    async def stop(self, request: Request) -> Response:
        return await self._do(request, partial(self._herder.stop_connector, _name(request)), _nothing(204))

    async def restart(self, request: Request) -> Response:
        name = _name(request)
        wanted = RestartRequest(name, flag(request, "includeTasks"), flag(request, "onlyFailed"))
        if not wanted.include_tasks and not wanted.only_failed:
            return await self._do(request, partial(self._herder.restart_connector, name), _nothing(204))
        call = partial(self._herder.restart, wanted)
        return await self._do(request, call, lambda status: json_response(status, 202))

    async def restart_task(self, request: Request) -> Response:
        call = partial(self._herder.restart_task, _name(request), task_number(request))
        return await self._do(request, call, _nothing(204))

    # Offsets

    async def get_offsets(self, request: Request) -> Response:
        return await self._do(request, partial(self._herder.get_offsets, _name(request)), json_response)

    async def alter_offsets(self, request: Request) -> Response:
        body = await request.body()
        try:
            offsets = read_offsets(body)
        except RequestError as error:
            raise http_error(error) from None
        call = partial(self._herder.alter_offsets, _name(request), offsets)
        return await self._do(request, call, _message, body)

    async def reset_offsets(self, request: Request) -> Response:
        return await self._do(request, partial(self._herder.reset_offsets, _name(request)), _message)


def _name(request: Request) -> str:
    return request.params["connector"]


def _shown_config(request: Request, config: Mapping[str, str]) -> Mapping[str, str]:
    return config if request.access >= Access.ADMIN else masked(config)


def _shown_info(request: Request, info: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**info, "config": _shown_config(request, info["config"])}


def _message(text: str) -> Response:
    return json_response({"message": text})
