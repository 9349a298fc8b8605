"""Settings of topics and brokers: of one, of each, and of all brokers by default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ottla.client.admin.configs import ConfigEntry, Resource, alter_configs, describe_configs, describe_many
from ottla.client.cluster import Cluster
from ottla.http import HttpError, Response, Router, json_response
from ottla.rest.errors import unprocessable
from ottla.rest.formats import flag, items, json_object, path_number, text
from ottla.rest.v3.api import Api, Asked
from ottla.rest.v3.resources import Links

_ALL_BROKERS = Resource("broker", "")


class Owner(NamedTuple):
    """A resource with settings, the path of its settings, and its fields in answers."""

    resource: Resource
    path: tuple[object, ...]
    fields: dict[str, Any]


def owned(resource: Resource) -> Owner:
    if resource == _ALL_BROKERS:
        return Owner(resource, ("broker-configs",), {"config_type": "BROKER"})
    if resource.broker is not None:
        return Owner(resource, ("brokers", resource.broker, "configs"), {"broker_id": resource.broker})
    return Owner(resource, ("topics", resource.name, "configs"), {"topic_name": resource.name})


def of_broker(asked: Asked) -> Owner:
    return owned(Resource("broker", str(path_number(asked.request, "broker"))))


def of_brokers(asked: Asked) -> Owner:
    return owned(_ALL_BROKERS)


def of_topic(asked: Asked) -> Owner:
    return owned(Resource("topic", asked.param("topic")))


class Changes(NamedTuple):
    values: dict[str, str]
    deleted: list[str]

    @classmethod
    def parse(cls, given: dict[str, Any], name: str) -> Changes:
        changes = cls({}, [])
        for each in items(given, name, "name", "value", "operation"):
            setting = text(each, "name")
            operation = str(each.get("operation") or "SET").upper()
            if operation == "DELETE":
                changes.deleted.append(setting)
            elif operation == "SET":
                changes.values[setting] = text(each, "value")
            else:
                raise unprocessable(f"operation must be SET or DELETE, not {each['operation']}.")
        return changes


class Configs:
    """Settings of one resource type, for topics and brokers."""

    def __init__(self, api: Api, owner: Callable[[Asked], Owner], kind: str) -> None:
        self._api = api
        self._owner = owner
        self._kind = kind

    def add_to(self, router: Router, path: str, of_what: str) -> None:
        add = self._api.add
        add(router, "GET", path, self.all, f"The settings {of_what}")
        add(router, "POST", f"{path}:alter", self.alter, f"Change settings {of_what}")
        add(router, "GET", f"{path}/{{name}}", self.one, f"One setting {of_what}")
        add(router, "PUT", f"{path}/{{name}}", self.update, f"Change a setting {of_what}")
        add(
            router, "DELETE", f"{path}/{{name}}", self.reset, f"Bring a setting {of_what} back to its default"
        )

    async def all(self, asked: Asked) -> Response:
        owner = await self._found(asked)
        return await self.of_many(asked, owner.path, [owner.resource])

    async def of_many(
        self, asked: Asked, path: tuple[object, ...], resources: Sequence[Resource]
    ) -> Response:
        found = await self._api.admin(asked, describe_many, resources)
        owned_entries = [(owned(resource), entry) for resource, entries in found.items() for entry in entries]
        return self.listed(asked, path, owned_entries)

    def listed(
        self, asked: Asked, path: tuple[object, ...], entries: Sequence[tuple[Owner, ConfigEntry]]
    ) -> Response:
        data = [self._described(asked.links, owner, entry) for owner, entry in entries]
        return asked.links.listed(f"{self._kind}List", path, data)

    async def one(self, asked: Asked) -> Response:
        owner = await self._found(asked)
        for entry in await self._api.admin(asked, describe_configs, owner.resource):
            if entry.name == asked.param("name"):
                return json_response(self._described(asked.links, owner, entry))
        raise HttpError(404, 404, f"Config {asked.param('name')} cannot be found.")

    async def update(self, asked: Asked) -> Response:
        value = text(await json_object(asked.request, "value"), "value")
        await self._change(asked, await self._found(asked), Changes({asked.param("name"): value}, []))
        return Response(204, content_type=None)

    async def reset(self, asked: Asked) -> Response:
        await self._change(asked, await self._found(asked), Changes({}, [asked.param("name")]))
        return Response(204, content_type=None)

    async def alter(self, asked: Asked) -> Response:
        given = await json_object(asked.request, "data", "validate_only")
        validate_only = flag(given, "validate_only")
        await self._change(asked, await self._found(asked), Changes.parse(given, "data"), validate_only)
        return Response(204, content_type=None)

    async def alter_many(self, asked: Asked) -> Response:
        """Change the settings of several topics. Answers 207 with the refused ones if there are any."""
        given = await json_object(asked.request, "data", "validate_only")
        validate_only = flag(given, "validate_only")
        wanted = [
            (owned(Resource("topic", text(each, "topic_name"))), Changes.parse(each, "configs"))
            for each in items(given, "data", "topic_name", "configs")
        ]
        failures = []
        for owner, changes in wanted:
            try:
                await self._change(asked, owner, changes, validate_only)
            except HttpError as error:
                failures.append(
                    {
                        "topic_name": owner.resource.name,
                        "error_code": error.error_code,
                        "message": error.message,
                    }
                )
        return json_response({"failures": failures}, 207) if failures else Response(204, content_type=None)

    async def _found(self, asked: Asked) -> Owner:
        owner = self._owner(asked)
        broker = owner.resource.broker
        if broker is not None and broker not in await self._api.admin(asked, Cluster.nodes):
            raise HttpError(404, 404, f"Broker {broker} cannot be found.")
        return owner

    async def _change(
        self, asked: Asked, owner: Owner, changes: Changes, validate_only: bool = False
    ) -> None:
        resource = owner.resource
        if resource != _ALL_BROKERS:  # lists only settings that were changed
            known = {entry.name for entry in await self._api.admin(asked, describe_configs, resource)}
            for name in (*changes.values, *changes.deleted):
                if name not in known:
                    where = f"{resource.kind.upper()} {resource.name} in cluster {asked.links.cluster_id}"
                    raise HttpError(404, 404, f"Config {name} cannot be found for {where}.")
        await self._api.admin(
            asked,
            alter_configs,
            resource,
            set_=changes.values,
            delete=changes.deleted,
            validate_only=validate_only,
        )

    def _described(self, links: Links, owner: Owner, entry: ConfigEntry) -> dict[str, Any]:
        crn = "".join(
            f"/{key.removesuffix('_name').removesuffix('_id')}={value}" for key, value in owner.fields.items()
        )
        return links.resource(
            self._kind,
            (*owner.path, entry.name),
            f"{crn}/config={entry.name}",
            **owner.fields,
            name=entry.name,
            value=entry.value,
            is_default=entry.is_default,
            is_read_only=entry.read_only,
            is_sensitive=entry.sensitive,
            source=entry.source,
            synonyms=[
                {"name": each.name, "value": each.value, "source": each.source} for each in entry.synonyms
            ],
        )
