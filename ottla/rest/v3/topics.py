"""Topics, their partitions, replicas, configurations and reassignments."""

from __future__ import annotations

from typing import Any

from ottla.client.admin.configs import Resource
from ottla.client.admin.offsets import available_offsets
from ottla.client.admin.reassignments import Reassignment, list_reassignments
from ottla.client.admin.topics import (
    PartitionDescription,
    TopicDescription,
    add_partitions,
    create_topic,
    default_configs,
    delete_topics,
    describe_topics,
    topic_names,
)
from ottla.http import HttpError, Response, Router, json_response
from ottla.rest import formats as bodies
from ottla.rest.errors import bad_request
from ottla.rest.v3.api import Api, Asked
from ottla.rest.v3.configs import Configs, Owner, of_topic
from ottla.rest.v3.resources import Links

ALL = "-"
_BOTH_OFFSETS = "earliest_and_latest"


class Topics:
    def __init__(self, api: Api) -> None:
        self._api = api

    def add_to(self, router: Router) -> None:
        add = self._api.add
        topic, partition = "/topics/{topic}", "/topics/{topic}/partitions/{partition}"
        add(router, "GET", "/topics", self.topics, "All topics")
        add(router, "POST", "/topics", self.create, "Make a topic")
        add(router, "GET", topic, self.topic, "A topic")
        add(router, "PATCH", topic, self.grow, "Give a topic more partitions")
        add(router, "DELETE", topic, self.delete, "Delete a topic")
        add(router, "GET", f"{topic}/partitions", self.partitions, "The partitions of a topic")
        add(router, "GET", partition, self.partition, "A partition")
        add(router, "GET", f"{partition}/replicas", self.replicas, "The replicas of a partition")
        add(router, "GET", f"{partition}/replicas/{{broker}}", self.replica, "A replica")
        add(
            router,
            "GET",
            f"{partition}/reassignment",
            self.reassignments,
            "The reassignment that is under way",
        )
        add(router, "GET", "/brokers/{broker}/partition-replicas", self.on_broker, "The replicas on a broker")
        add(router, "GET", f"{partition}/offset", self.offset, "The first and the next offset of a partition")
        self._configs = Configs(self._api, of_topic, "KafkaTopicConfig")
        self._configs.add_to(router, f"{topic}/configs", "of a topic")
        add(router, "GET", f"{topic}/default-configs", self.default_configs, "The settings of a new topic")
        add(router, "GET", f"/topics/{ALL}/configs", self.all_configs, "The settings of each topic")
        add(
            router,
            "POST",
            f"/topics/{ALL}/configs:alter",
            self._configs.alter_many,
            "Change settings of several topics",
        )

    async def topics(self, asked: Asked) -> Response:
        names = await self._api.admin(asked, topic_names, True)
        found = await self._api.admin(asked, describe_topics, names) if names else []
        return asked.links.listed(
            "KafkaTopicList", ("topics",), [_topic(asked.links, each) for each in found]
        )

    async def create(self, asked: Asked) -> Response:
        given = await bodies.json_object(
            asked.request,
            "topic_name",
            "partitions_count",
            "replication_factor",
            "replicas_assignments",
            "configs",
            "validate_only",
        )
        name = bodies.text(given, "topic_name")
        assignment = None
        if given.get("replicas_assignments"):
            listed = bodies.items(given, "replicas_assignments", "partition_id", "broker_ids")
            placed = {bodies.number(each, "partition_id"): each.get("broker_ids", []) for each in listed}
            if sorted(placed) != list(range(len(placed))):
                raise bad_request("replicas_assignments must name the partitions 0 to n, each once.")
            assignment = [placed[number] for number in sorted(placed)]
        configs = {
            bodies.text(each, "name"): bodies.text(each, "value")
            for each in bodies.optional_items(given, "configs", "name", "value")
        }
        partitions = bodies.number(given, "partitions_count", None)
        replication_factor = bodies.number(given, "replication_factor", None)
        validate_only = bodies.flag(given, "validate_only")
        await self._api.admin(
            asked,
            create_topic,
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
            assignment=assignment,
            validate_only=validate_only,
        )
        if validate_only:
            planned = _topic_named(asked.links, name, False, replication_factor or 0, partitions or 0)
            return json_response(planned, 200)
        [found] = await self._api.admin(asked, describe_topics, [name])
        described = _topic(asked.links, found)
        return json_response(described, 201, headers={"Location": described["metadata"]["self"]})

    async def topic(self, asked: Asked) -> Response:
        return json_response(_topic(asked.links, await self._found(asked)))

    async def grow(self, asked: Asked) -> Response:
        given = await bodies.json_object(asked.request, "partitions_count")
        count = bodies.number(given, "partitions_count")
        await self._api.admin(asked, add_partitions, asked.param("topic"), count)
        return await self.topic(asked)

    async def delete(self, asked: Asked) -> Response:
        await self._api.admin(asked, delete_topics, [asked.param("topic")])
        return Response(204, content_type=None)

    async def partitions(self, asked: Asked) -> Response:
        topic = await self._found(asked)
        data = [_partition(asked.links, topic.name, each) for each in topic.partitions]
        return asked.links.listed("KafkaPartitionList", ("topics", topic.name, "partitions"), data)

    async def partition(self, asked: Asked) -> Response:
        return json_response(_partition(asked.links, asked.param("topic"), await self._one(asked)))

    async def replicas(self, asked: Asked) -> Response:
        found, topic = await self._one(asked), asked.param("topic")
        data = [_replica(asked.links, topic, found, broker) for broker in found.replicas]
        return asked.links.listed(
            "KafkaReplicaList", ("topics", topic, "partitions", found.partition, "replicas"), data
        )

    async def replica(self, asked: Asked) -> Response:
        found, broker = await self._one(asked), bodies.path_number(asked.request, "broker")
        if broker not in found.replicas:
            raise HttpError(404, 404, f"Replica {broker} cannot be found.")
        return json_response(_replica(asked.links, asked.param("topic"), found, broker))

    async def on_broker(self, asked: Asked) -> Response:
        broker = bodies.path_number(asked.request, "broker")
        names = await self._api.admin(asked, topic_names, True)
        found = await self._api.admin(asked, describe_topics, names) if names else []
        data = [
            _replica(asked.links, topic.name, partition, broker)
            for topic in found
            for partition in topic.partitions
            if broker in partition.replicas
        ]
        return asked.links.listed("KafkaReplicaList", ("brokers", broker, "partition-replicas"), data)

    async def reassignments(self, asked: Asked) -> Response:
        topic, partition = asked.param("topic"), asked.param("partition")
        under_way = await self._api.admin(asked, list_reassignments)
        data = [
            _reassignment(asked.links, name, index, each)
            for (name, index), each in sorted(under_way.items())
            if topic in (ALL, name) and partition in (ALL, str(index))
        ]
        if ALL in (topic, partition):
            path = ("topics", topic, "partitions", partition, "reassignment")
            return asked.links.listed("KafkaReassignmentList", path, data)
        if not data:
            raise HttpError(404, 404, f"Reassignment of partition {topic}-{partition} cannot be found.")
        return json_response(data[0])

    async def offset(self, asked: Asked) -> Response:
        kind = asked.request.query.get("offset_type", _BOTH_OFFSETS)
        if kind != _BOTH_OFFSETS:
            raise bad_request(f"offset_type:{kind} is invalid")
        topic, number = asked.param("topic"), (await self._one(asked)).partition
        key = (topic, number)
        beginnings, ends = await self._api.admin(asked, available_offsets, [key])
        return json_response(
            asked.links.resource(
                "KafkaPartitionWithOffsets",
                ("topics", topic, "partitions", number, "offset"),
                f"/topic={topic}/partition={number}/offset_type={kind}",
                topic_name=topic,
                partition_id=number,
                earliest_offset=beginnings[key],
                latest_offset=ends[key],
            )
        )

    async def default_configs(self, asked: Asked) -> Response:
        entries = await self._api.admin(asked, default_configs)
        topic = asked.param("topic")
        owner = Owner(Resource("topic", topic), ("topics", topic, "default-configs"), {"topic_name": topic})
        return self._configs.listed(asked, owner.path, [(owner, each) for each in entries])

    async def all_configs(self, asked: Asked) -> Response:
        names = await self._api.admin(asked, topic_names, True)
        return await self._configs.of_many(
            asked, ("topics", ALL, "configs"), [Resource("topic", each) for each in names]
        )

    async def _found(self, asked: Asked) -> TopicDescription:
        [found] = await self._api.admin(asked, describe_topics, [asked.param("topic")])
        described: TopicDescription = found
        return described

    async def _one(self, asked: Asked) -> PartitionDescription:
        wanted = bodies.path_number(asked.request, "partition")
        for each in (await self._found(asked)).partitions:
            if each.partition == wanted:
                return each
        raise HttpError(404, 404, "Partition not found.")


def _topic(links: Links, found: TopicDescription) -> dict[str, Any]:
    return _topic_named(links, found.name, found.internal, found.replication_factor, len(found.partitions))


def _topic_named(
    links: Links, name: str, internal: bool, replication_factor: int, partitions: int
) -> dict[str, Any]:
    path = ("topics", name)
    return links.resource(
        "KafkaTopic",
        path,
        f"/topic={name}",
        topic_name=name,
        is_internal=internal,
        replication_factor=replication_factor,
        partitions_count=partitions,
        partitions=links.related(*path, "partitions"),
        configs=links.related(*path, "configs"),
        partition_reassignments=links.related(*path, "partitions", ALL, "reassignment"),
        authorized_operations=[],
    )


def _partition(links: Links, topic: str, found: PartitionDescription) -> dict[str, Any]:
    path = ("topics", topic, "partitions", found.partition)
    described = links.resource(
        "KafkaPartition",
        path,
        f"/topic={topic}/partition={found.partition}",
        topic_name=topic,
        partition_id=found.partition,
        replicas=links.related(*path, "replicas"),
        reassignment=links.related(*path, "reassignment"),
    )
    if found.leader is not None:
        described["leader"] = links.related(*path, "replicas", found.leader)
    return described


def _replica(links: Links, topic: str, found: PartitionDescription, broker: int) -> dict[str, Any]:
    return links.resource(
        "KafkaReplica",
        ("topics", topic, "partitions", found.partition, "replicas", broker),
        f"/topic={topic}/partition={found.partition}/replica={broker}",
        topic_name=topic,
        partition_id=found.partition,
        broker_id=broker,
        is_leader=broker == found.leader,
        is_in_sync=broker in found.isr,
        broker=links.related("brokers", broker),
    )


def _reassignment(links: Links, topic: str, partition: int, found: Reassignment) -> dict[str, Any]:
    path = ("topics", topic, "partitions", partition)
    return links.resource(
        "KafkaReassignment",
        (*path, "reassignment"),
        f"/topic={topic}/partition={partition}/reassignment",
        topic_name=topic,
        partition_id=partition,
        adding_replicas=list(found.adding),
        removing_replicas=list(found.removing),
        replicas=links.related(*path, "replicas"),
    )
