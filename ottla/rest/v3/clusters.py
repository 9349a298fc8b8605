"""Clusters, brokers, their configurations, and ACLs."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeVar

from ottla.client.admin.acls import create_acls, delete_acls, describe_acls
from ottla.client.admin.configs import Resource
from ottla.client.cluster import Cluster, Node
from ottla.http import Access, HttpError, Request, Response, RouteDoc, Router, json_response
from ottla.rest import formats as bodies
from ottla.rest.errors import bad_request
from ottla.rest.v3.api import Api, Asked
from ottla.rest.v3.configs import Configs, of_broker, of_brokers
from ottla.rest.v3.resources import Links
from ottla.security.acls import (
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

T = TypeVar("T", bound=IntEnum)

_ACL = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")


class Clusters:
    def __init__(self, api: Api) -> None:
        self._api = api

    def add_to(self, router: Router) -> None:
        doc = RouteDoc("The one cluster behind this proxy")
        router.add("GET", "/v3/clusters", self.clusters, access=Access.USER, doc=doc)
        add = self._api.add
        add(router, "GET", "", self.cluster, "The cluster")
        add(router, "GET", "/brokers", self.brokers, "All brokers")
        add(router, "GET", "/brokers/{broker}", self.broker, "One broker")
        broker_configs = Configs(self._api, of_broker, "KafkaBrokerConfig")
        broker_configs.add_to(router, "/brokers/{broker}/configs", "of a broker")
        Configs(self._api, of_brokers, "KafkaClusterConfig").add_to(
            router, "/broker-configs", "of all brokers"
        )
        self._broker_configs = broker_configs
        add(router, "GET", "/brokers/-/configs", self.all_broker_configs, "The settings of each broker")
        add(router, "GET", "/acls", self.acls, "ACLs that match")
        add(router, "POST", "/acls", self.create_acl, "Add an ACL")
        add(router, "POST", "/acls:batch", self.create_acls, "Add several ACLs")
        add(router, "DELETE", "/acls", self.delete_acls, "Remove the ACLs that match")

    async def clusters(self, request: Request) -> Response:
        asked = await self._api.asked(request)
        data = [await self._cluster(asked)]
        return asked.links.listed_at("KafkaClusterList", f"{asked.links.base}/v3/clusters", data)

    async def cluster(self, asked: Asked) -> Response:
        return json_response(await self._cluster(asked))

    async def _cluster(self, asked: Asked) -> dict[str, Any]:
        metadata = await self._api.admin(asked, Cluster.metadata, [])
        links = asked.links
        return links.resource(
            "KafkaCluster",
            (),
            "",
            controller=links.related("brokers", metadata.controller_id),
            acls=links.related("acls"),
            brokers=links.related("brokers"),
            broker_configs=links.related("broker-configs"),
            consumer_groups=links.related("consumer-groups"),
            topics=links.related("topics"),
            partition_reassignments=links.related("topics", "-", "partitions", "-", "reassignment"),
        )

    async def brokers(self, asked: Asked) -> Response:
        nodes = await self._api.admin(asked, Cluster.nodes)
        data = [_broker(asked.links, node) for _, node in sorted(nodes.items())]
        return asked.links.listed("KafkaBrokerList", ("brokers",), data)

    async def broker(self, asked: Asked) -> Response:
        nodes = await self._api.admin(asked, Cluster.nodes)
        node = nodes.get(bodies.path_number(asked.request, "broker"))
        if node is None:
            raise HttpError(404, 404, f"Broker {asked.param('broker')} cannot be found.")
        return json_response(_broker(asked.links, node))

    async def all_broker_configs(self, asked: Asked) -> Response:
        nodes = await self._api.admin(asked, Cluster.nodes)
        return await self._broker_configs.of_many(
            asked, ("brokers", "-", "configs"), [Resource("broker", str(each)) for each in sorted(nodes)]
        )

    # ACLs

    async def acls(self, asked: Asked) -> Response:
        found = await self._api.admin(asked, describe_acls, _filter(asked.request))
        return asked.links.listed("KafkaAclList", ("acls",), [_acl(asked.links, acl) for acl in found])

    async def create_acl(self, asked: Asked) -> Response:
        given = await bodies.json_object(asked.request, *_ACL)
        await self._api.admin(asked, create_acls, [_parsed_acl(given)])
        return Response(201, content_type=None)

    async def create_acls(self, asked: Asked) -> Response:
        given = bodies.items(await bodies.json_object(asked.request, "data"), "data", *_ACL)
        await self._api.admin(asked, create_acls, [_parsed_acl(each) for each in given])
        return Response(201, content_type=None)

    async def delete_acls(self, asked: Asked) -> Response:
        wanted = _filter(asked.request)
        for name in ("resource_type", "pattern_type", "operation", "permission"):
            if name not in asked.request.query:
                raise bad_request(f"{name} is missing. Use ANY for all.")
        found = await self._api.admin(asked, delete_acls, [wanted])
        return json_response({"data": [_acl(asked.links, acl) for acl in sorted(found)]})


def _broker(links: Links, node: Node) -> dict[str, Any]:
    return links.resource(
        "KafkaBroker",
        ("brokers", node.id),
        f"/broker={node.id}",
        broker_id=node.id,
        host=node.host,
        port=node.port,
        rack=node.rack,
        configs=links.related("brokers", node.id, "configs"),
        partition_replicas=links.related("brokers", node.id, "partition-replicas"),
    )


def _acl(links: Links, acl: Acl) -> dict[str, Any]:
    pattern, entry = acl
    fields = {
        "resource_type": pattern.resource_type.name,
        "resource_name": pattern.name,
        "pattern_type": pattern.pattern_type.name,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.name,
        "permission": entry.permission.name,
    }
    query = "&".join(f"{name}={value}" for name, value in fields.items())
    found = links.resource("KafkaAcl", ("acls",), f"/acl={'/'.join(map(str, fields.values()))}", **fields)
    found["metadata"]["self"] += f"?{query}"
    return found


def _named(kind: type[T], text: str, what: str) -> T:
    try:
        return kind[text.upper()]
    except KeyError:
        names = ", ".join(each.name for each in kind if each.name != "UNKNOWN")
        raise bad_request(f"{what} must be one of {names}, not {text}.") from None


def _filter(request: Request) -> AclFilter:
    given = request.query
    return AclFilter(
        _named(ResourceType, given.get("resource_type", "ANY"), "resource_type"),
        given.get("resource_name"),
        _named(PatternType, given.get("pattern_type", "ANY"), "pattern_type"),
        given.get("principal"),
        given.get("host"),
        _named(Operation, given.get("operation", "ANY"), "operation"),
        _named(Permission, given.get("permission", "ANY"), "permission"),
    )


def _parsed_acl(given: dict[str, Any]) -> Acl:
    return Acl(
        ResourcePattern(
            _named(ResourceType, bodies.text(given, "resource_type"), "resource_type"),
            bodies.text(given, "resource_name"),
            _named(PatternType, bodies.text(given, "pattern_type"), "pattern_type"),
        ),
        Entry(
            bodies.text(given, "principal"),
            bodies.text(given, "host"),
            _named(Operation, bodies.text(given, "operation"), "operation"),
            _named(Permission, bodies.text(given, "permission"), "permission"),
        ),
    )
