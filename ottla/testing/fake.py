"""`ottla fake`: the test broker for programs in any language, with a control API over HTTP.

The broker is the real one, with its data in a temporary directory. The control API prepares it, injects faults,
observes requests, waits for conditions, and resets everything between two tests.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Set
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ottla.broker.faults import Fault, SeenRequest
from ottla.client.admin.groups import committed_offsets, describe_group
from ottla.client.admin.topics import list_topics
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.http.access import Access
from ottla.http.messages import HttpError, Request, Response, json_response
from ottla.http.router import Parameter, RouteDoc, Router
from ottla.http.server import HttpServer
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages import API_NAMES
from ottla.testing.broker import Broker
from ottla.testing.checks import known_name
from ottla.testing.security import acl

T = TypeVar("T")

CLIENT_ID = "ottla-fake"
_LOOK_AGAIN_SECONDS = 0.01
_FAULT_FIELDS = {each.name for each in fields(Fault)} - {"injected", "delay"} | {"delay_ms"}
_OBJECT: Mapping[str, Any] = {"type": "object"}


class Fake:
    """A broker and its control server. Owner: the event loop of the control server."""

    def __init__(self, broker: Broker, host: str = "127.0.0.1", port: int = 0) -> None:
        self.broker = broker
        self._scratch = Path(tempfile.mkdtemp(prefix="ottla-fake-"))
        self._server = HttpServer(self._routes(), host, port)
        self._one_at_a_time = asyncio.Lock()  # changes of the broker

    async def start(self) -> None:
        await asyncio.to_thread(self._start_broker)
        await self._server.start()

    def _start_broker(self) -> None:
        self.broker.start()
        self.broker.observe()

    async def stop(self) -> None:
        await self._server.stop(grace_seconds=0)
        await asyncio.to_thread(self.broker.stop)
        shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def urls(self) -> list[str]:
        return [f"http://{self._server.host}:{self._server.port}"]

    def addresses(self) -> dict[str, Any]:
        """Return everything a test needs to connect."""
        broker = self.broker
        found: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "control": self.urls[0]}
        if broker.has_registry:
            found["schema_registry"] = broker.schema_registry_url
        found["client"] = broker.client_properties()
        return found

    # Routes

    def _routes(self) -> Router:
        router = Router()

        def add(method: str, path: str, handler: Callable[[Request], Any], summary: str, **doc: Any) -> None:
            router.add(method, path, handler, access=Access.ANYONE, doc=RouteDoc(summary, **doc))

        add("GET", "/", self._about, "Return the addresses and client settings")
        add("GET", "/topics", self._list_topics, "List the topics")
        add(
            "POST", "/topics", self._create_topic, "Create a topic: name, partitions, config", request=_OBJECT
        )
        add("DELETE", "/topics/{topic}", self._delete_topic, "Delete a topic")
        by_partition = (Parameter("partition", "Partition [default: 0]", {"type": "integer"}),)
        add("GET", "/topics/{topic}/records", self._records, "Return all records", parameters=by_partition)
        add(
            "POST",
            "/topics/{topic}/records",
            self._produce,
            "Append a record: key, value (or key_base64, value_base64), partition, timestamp",
            request=_OBJECT,
        )
        add(
            "POST",
            "/users",
            self._add_user,
            "Add a user (name, password) to a broker with --security",
            request=_OBJECT,
        )
        add(
            "POST",
            "/acls",
            self._add_acl,
            "Add an ACL: user, operation, and topic, group or transactional_id",
            request=_OBJECT,
        )
        add("GET", "/faults", self._list_faults, "List the faults that still wait for requests")
        add(
            "POST",
            "/faults",
            self._add_fault,
            "Inject a fault: api, topic, partition, client_id, skip, times, probability; error, delay_ms, drop, after",
            request=_OBJECT,
        )
        add("DELETE", "/faults", self._clear_faults, "Remove all faults")
        seen = (Parameter("api", "Only this API"), Parameter("client_id", "Only this client"))
        add("GET", "/requests", self._requests, "Return the last 10,000 requests", parameters=seen)
        add(
            "POST",
            "/wait",
            self._wait,
            "Wait for a group (group, state, members), an offset (group, topic, partition, committed) "
            "or requests (api, count), for timeout_ms at most",
            request=_OBJECT,
            errors={408: "The condition did not come true in time"},
        )
        add("POST", "/restart", self._restart, "Restart the broker with its data")
        add("POST", "/reset", self._reset, "Remove all topics, groups, faults and users added later")
        add("POST", "/snapshots/{name}", self._take_snapshot, "Copy the data of the broker; it restarts")
        add("POST", "/snapshots/{name}/restore", self._restore, "Go back to a snapshot; the broker restarts")
        api = router.openapi("Ottla's test broker")
        add("GET", "/openapi.json", lambda _: json_response(api), "Return this description")
        return router

    # Topics and records

    def _about(self, _: Request) -> Response:
        return json_response(self.addresses())

    async def _list_topics(self, _: Request) -> Response:
        topics = await asyncio.to_thread(self._ask, list_topics, [])
        return json_response([{"name": each.name, "partitions": each.partitions} for each in topics])

    async def _create_topic(self, request: Request) -> Response:
        wanted = await _body(request, {"name", "partitions", "config"}, required={"name"})
        name = _text(wanted, "name")
        config = {str(key): str(value) for key, value in wanted.get("config", {}).items()}
        await self._call(self.broker.create_topic, name, _number(wanted, "partitions", 1), config)
        return json_response({"name": name, "partitions": _number(wanted, "partitions", 1)}, 201)

    async def _delete_topic(self, request: Request) -> Response:
        self._check_topic(request.params["topic"])
        await self._call(self.broker.delete_topic, request.params["topic"])
        return Response(204)

    async def _records(self, request: Request) -> Response:
        topic, partition = request.params["topic"], _query_number(request, "partition")
        self._check_topic(topic, partition)
        records = await self._call(self.broker.records, topic, partition)
        return json_response(
            [
                {
                    "offset": each.offset,
                    "timestamp": each.timestamp,
                    **_shown("key", each.key),
                    **_shown("value", each.value),
                    "headers": [{"name": name, **_shown("value", value)} for name, value in each.headers],
                }
                for each in records
            ]
        )

    async def _produce(self, request: Request) -> Response:
        names = {"key", "value", "key_base64", "value_base64", "partition", "timestamp"}
        record = await _body(request, names)
        topic, partition = request.params["topic"], _number(record, "partition", 0)
        self._check_topic(topic, partition)
        key, value = _bytes(record, "key"), _bytes(record, "value")
        timestamp = record.get("timestamp")
        offset = await self._call(
            lambda: self.broker.produce(topic, value, key=key, partition=partition, timestamp=timestamp)
        )
        return json_response({"partition": partition, "offset": offset}, 201)

    def _check_topic(self, topic: str, partition: int = 0) -> None:
        try:
            count = self.broker.partition_count(topic)
        except KeyError:
            raise HttpError(404, 404, f"There is no topic {topic}.") from None
        if not 0 <= partition < count:
            raise HttpError(404, 404, f"{topic} has the partitions 0 to {count - 1}.")

    # Users and ACLs

    async def _add_user(self, request: Request) -> Response:
        user = await _body(request, {"name", "password"}, required={"name", "password"})
        await self._call(self.broker.add_user, _text(user, "name"), _text(user, "password"))
        return Response(204)

    async def _add_acl(self, request: Request) -> Response:
        names = {"user", "operation", "topic", "group", "transactional_id", "prefixed", "deny", "host"}
        wanted = await _body(request, names, required={"user", "operation"})
        try:
            made = acl(wanted.pop("user"), wanted.pop("operation"), **wanted)
        except KeyError as error:
            raise HttpError(400, 400, f"There is no operation called {error}.") from None
        await self._call(self.broker.add_acls, made)
        return Response(204)

    # Faults and requests

    def _list_faults(self, _: Request) -> Response:
        return json_response([_fault_shown(fault) for fault in self.broker.faults()])

    async def _add_fault(self, request: Request) -> Response:
        wanted = await _body(request, _FAULT_FIELDS)
        if not {"error", "delay_ms", "drop"} & wanted.keys():
            raise HttpError(400, 400, "A fault needs an effect: error, delay_ms or drop.")
        if "error" in wanted:
            name = _checked(lambda: known_name(str(wanted["error"]), ErrorCode.__members__, "error"))
            wanted["error"] = ErrorCode[name]
        if "delay_ms" in wanted:
            wanted["delay"] = _number(wanted, "delay_ms", 0) / 1000
            del wanted["delay_ms"]
        fault = Fault(**wanted)
        _checked(lambda: self.broker.inject(fault))
        return json_response(_fault_shown(fault), 201)

    def _clear_faults(self, _: Request) -> Response:
        self.broker.clear_faults()
        return Response(204)

    def _requests(self, request: Request) -> Response:
        return json_response([each._asdict() for each in self._seen(request.query)])

    def _seen(self, wanted: Mapping[str, Any]) -> list[SeenRequest]:
        found = _checked(lambda: self.broker.requests(wanted.get("api"), wanted.get("client_id")))
        return [each for each in found if each.client_id != CLIENT_ID]

    # Waiting

    async def _wait(self, request: Request) -> Response:
        names = {"group", "state", "members", "topic", "partition", "committed", "api", "client_id", "count"}
        wanted = await _body(request, names | {"timeout_ms"})
        condition = self._condition(wanted)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _number(wanted, "timeout_ms", 10_000) / 1000
        while True:
            is_true, state = await asyncio.to_thread(condition)
            if is_true:
                return json_response(state)
            if loop.time() >= deadline:
                raise HttpError(408, 408, f"This did not happen in time. Now: {json.dumps(state)}")
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    def _condition(self, wanted: dict[str, Any]) -> Callable[[], tuple[bool, dict[str, Any]]]:
        if "api" in wanted:
            known = _checked(lambda: known_name(str(wanted["api"]), API_NAMES.values(), "API"))
            count = _number(wanted, "count", 1)
            return lambda: self._arrived({**wanted, "api": known}, count)
        group = _text(wanted, "group")
        if "committed" in wanted:
            place = (_text(wanted, "topic"), _number(wanted, "partition", 0))
            return lambda: self._committed(group, place, _number(wanted, "committed", 0))
        return lambda: self._group_is(group, str(wanted.get("state", "Stable")), wanted.get("members"))

    def _arrived(self, wanted: dict[str, Any], count: int) -> tuple[bool, dict[str, Any]]:
        found = len(self._seen(wanted))
        return found >= count, {"api": wanted["api"], "count": found}

    def _committed(self, group: str, place: tuple[str, int], offset: int) -> tuple[bool, dict[str, Any]]:
        nothing: dict[tuple[str, int], int] = {}
        found = self._ask(lambda cluster: committed_offsets(cluster, group), nothing).get(place, -1)
        return found >= offset, {"group": group, "committed": found}

    def _group_is(self, group: str, state: str, members: int | None) -> tuple[bool, dict[str, Any]]:
        found = self._ask(lambda cluster: describe_group(cluster, group), None)
        count = 0 if found is None else len(found.members)
        now = "Missing" if found is None else found.state
        is_true = now.lower() == state.lower() and members in (None, count)
        return is_true, {"group": group, "state": now, "members": count}

    # Lifecycle

    async def _restart(self, _: Request) -> Response:
        await self._call(self._restart_with, None)
        return Response(204)

    async def _reset(self, _: Request) -> Response:
        await self._call(self._restart_with, self._scratch / "nothing")
        return Response(204)

    async def _take_snapshot(self, request: Request) -> Response:
        kept = self._snapshot(request.params["name"])

        def copy() -> None:
            shutil.rmtree(kept, ignore_errors=True)
            self._restart_with(None, lambda data: shutil.copytree(data, kept))

        await self._call(copy)
        return Response(204)

    async def _restore(self, request: Request) -> Response:
        kept = self._snapshot(request.params["name"])
        if not kept.is_dir():
            raise HttpError(404, 404, f"There is no snapshot {request.params['name']}.")
        await self._call(self._restart_with, kept)
        return Response(204)

    def _snapshot(self, name: str) -> Path:
        return self._scratch / base64.urlsafe_b64encode(name.encode()).decode()

    def _restart_with(
        self, contents: Path | None, meanwhile: Callable[[Path], object] = lambda data: None
    ) -> None:
        """Restart the broker, with other data if `contents` is given; a missing directory means none."""

        def between(data: Path) -> None:
            meanwhile(data)
            if contents is not None:
                for entry in data.iterdir():
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
                if contents.is_dir():
                    shutil.copytree(contents, data, dirs_exist_ok=True)

        self.broker.restart(between)
        self.broker.observe()

    # Calling the broker

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        async with self._one_at_a_time:
            try:
                return await asyncio.to_thread(function, *arguments)
            except KafkaError as error:
                raise HttpError(400, error.code, str(error)) from None
            except ValueError as error:
                raise HttpError(400, 400, str(error)) from None

    def _ask(self, use: Callable[[Cluster], T], missing: T) -> T:
        """Ask over the wire, like a tool. The control API's own requests have the client id `ottla-fake`."""
        cluster = Cluster(Settings.from_properties(self.broker.client_properties(), CLIENT_ID))
        try:
            return use(cluster)
        except ClientError:
            return missing
        finally:
            cluster.close()


# Bodies


async def _body(request: Request, names: Set[str], required: Set[str] = frozenset()) -> dict[str, Any]:
    try:
        found = json.loads(await request.body() or b"{}")
    except ValueError as error:
        raise HttpError(400, 400, f"The body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise HttpError(400, 400, "The body must be a JSON object.")
    for name in found:
        if name not in names:
            _checked(partial(known_name, name, sorted(names), "field"))
    if missing := sorted(required - found.keys()):
        raise HttpError(400, 400, f"The body lacks {', '.join(missing)}.")
    return found


def _checked(function: Callable[[], T]) -> T:
    try:
        return function()
    except (ValueError, KeyError, TypeError) as error:
        raise HttpError(400, 400, str(error)) from None


def _text(body: Mapping[str, Any], name: str) -> str:
    if not isinstance(body.get(name), str) or not body[name]:
        raise HttpError(400, 400, f"{name} must be a text.")
    return str(body[name])


def _number(body: Mapping[str, Any], name: str, default: int) -> int:
    found = body.get(name, default)
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise HttpError(400, 400, f"{name} must be a number of 0 or more.")
    return found


def _query_number(request: Request, name: str) -> int:
    text = request.query.get(name, "0")
    if not text.isdecimal():
        raise HttpError(400, 400, f"{name} must be a number of 0 or more.")
    return int(text)


def _bytes(record: Mapping[str, Any], name: str) -> bytes | None:
    if (encoded := record.get(f"{name}_base64")) is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise HttpError(400, 400, f"{name}_base64 is not base64.") from None
    value = record.get(name)
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def _shown(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return a field with a text, or with base64 for data that is not UTF-8."""
    if data is None:
        return {name: None}
    try:
        return {name: bytes(data).decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _fault_shown(fault: Fault) -> dict[str, Any]:
    shown = {name: value for name, value in asdict(fault).items() if value not in (None, False, 0.0, 0)}
    if fault.error is not None:
        shown["error"] = fault.error.name
    if "delay" in shown:
        shown["delay_ms"] = round(shown.pop("delay") * 1000)
    return shown
