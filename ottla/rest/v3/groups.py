"""Consumer groups: members, assignments and lag."""

from __future__ import annotations

from typing import Any

from ottla.client.admin.groups import (
    GroupDescription,
    GroupListing,
    Member,
    PartitionLag,
    describe_group,
    group_lag,
    list_consumer_groups,
)
from ottla.client.cluster import Cluster
from ottla.http import HttpError, Response, Router, json_response
from ottla.rest.formats import path_number
from ottla.rest.v3.api import Api, Asked
from ottla.rest.v3.resources import Links

_GROUPS = "consumer-groups"


class Groups:
    def __init__(self, api: Api) -> None:
        self._api = api

    def add_to(self, router: Router) -> None:
        add = self._api.add
        group = f"/{_GROUPS}/{{group}}"
        consumer = f"{group}/consumers/{{consumer}}"
        add(router, "GET", f"/{_GROUPS}", self.groups, "All consumer groups")
        add(router, "GET", group, self.group, "A consumer group")
        add(router, "GET", f"{group}/consumers", self.consumers, "The members of a group")
        add(router, "GET", consumer, self.consumer, "A member of a group")
        add(router, "GET", f"{consumer}/assignments", self.assignments, "The partitions of a member")
        add(
            router,
            "GET",
            f"{consumer}/assignments/{{topic}}/partitions/{{partition}}",
            self.assignment,
            "One partition of a member",
        )
        add(router, "GET", f"{group}/lag-summary", self.lag_summary, "Lag of a group")
        add(router, "GET", f"{group}/lags", self.lags, "Lag of a group in each partition")
        add(
            router,
            "GET",
            f"{group}/lags/{{topic}}/partitions/{{partition}}",
            self.lag,
            "The lag in one partition",
        )

    async def groups(self, asked: Asked) -> Response:
        listed: list[GroupListing] = await self._api.admin(asked, list_consumer_groups)
        data = []
        for each in listed:
            try:
                data.append(_group(asked.links, await self._api.admin(asked, describe_group, each.group)))
            except HttpError as error:
                if error.status != 404:  # deleted in the meantime
                    raise
        return asked.links.listed("KafkaConsumerGroupList", (_GROUPS,), data)

    async def group(self, asked: Asked) -> Response:
        return json_response(_group(asked.links, await self._found(asked)))

    async def consumers(self, asked: Asked) -> Response:
        found = await self._found(asked)
        data = [_consumer(asked.links, found.group, each) for each in found.members]
        return asked.links.listed("KafkaConsumerList", (_GROUPS, found.group, "consumers"), data)

    async def consumer(self, asked: Asked) -> Response:
        found = await self._found(asked)
        return json_response(_consumer(asked.links, found.group, self._member(asked, found)))

    async def assignments(self, asked: Asked) -> Response:
        found = await self._found(asked)
        member = self._member(asked, found)
        path = (_GROUPS, found.group, "consumers", member.consumer_id, "assignments")
        data = [_assignment(asked.links, found.group, member, *each) for each in sorted(member.partitions)]
        return asked.links.listed("KafkaConsumerAssignmentList", path, data)

    async def assignment(self, asked: Asked) -> Response:
        found = await self._found(asked)
        member = self._member(asked, found)
        wanted = (asked.param("topic"), path_number(asked.request, "partition"))
        if wanted not in member.partitions:
            raise HttpError(404, 404, "Consumer assignment cannot be found.")
        return json_response(_assignment(asked.links, found.group, member, *wanted))

    async def lags(self, asked: Asked) -> Response:
        found, rows = await self._lags(asked)
        data = [_lag(asked.links, found, row) for row in rows]
        return asked.links.listed("KafkaConsumerLagList", (_GROUPS, found.group, "lags"), data)

    async def lag(self, asked: Asked) -> Response:
        found, rows = await self._lags(asked)
        for row in rows:
            if (row.topic, str(row.partition)) == (asked.param("topic"), asked.param("partition")):
                return json_response(_lag(asked.links, found, row))
        raise HttpError(404, 404, "Consumer lag not found.")

    async def lag_summary(self, asked: Asked) -> Response:
        found, rows = await self._lags(asked)
        if not rows:
            raise HttpError(404, 404, "Consumer group offsets could not be found.")
        most = max(rows, key=lambda row: row.lag or 0)
        path = (_GROUPS, found.group)
        consumer = most.consumer_id or ""
        summary = asked.links.resource(
            "KafkaConsumerGroupLagSummary",
            (*path, "lag-summary"),
            f"/consumer-group={found.group}/lag-summary",
            consumer_group_id=found.group,
            max_lag_consumer_id=consumer,
            max_lag_instance_id=_instance(found, consumer),
            max_lag_client_id=most.client_id or "",
            max_lag_topic_name=most.topic,
            max_lag_partition_id=most.partition,
            max_lag=most.lag or 0,
            total_lag=sum(row.lag or 0 for row in rows),
            max_lag_consumer=asked.links.related(*path, "consumers", consumer),
            max_lag_partition=asked.links.related("topics", most.topic, "partitions", most.partition),
        )
        return json_response(summary)

    async def _found(self, asked: Asked) -> GroupDescription:
        found: GroupDescription = await self._api.admin(asked, describe_group, asked.param("group"))
        return found

    def _member(self, asked: Asked, found: GroupDescription) -> Member:
        for each in found.members:
            if each.consumer_id == asked.param("consumer"):
                return each
        raise HttpError(404, 404, f"Consumer {asked.param('consumer')} cannot be found.")

    async def _lags(self, asked: Asked) -> tuple[GroupDescription, list[PartitionLag]]:
        def both(cluster: Cluster) -> tuple[GroupDescription, list[PartitionLag]]:
            described = describe_group(cluster, asked.param("group"))
            return described, group_lag(cluster, described)

        found: tuple[GroupDescription, list[PartitionLag]] = await self._api.admin(asked, both)
        return found


def _group(links: Links, found: GroupDescription) -> dict[str, Any]:
    path = (_GROUPS, found.group)
    return links.resource(
        "KafkaConsumerGroup",
        path,
        f"/consumer-group={found.group}",
        consumer_group_id=found.group,
        is_simple=not found.members and not found.assignor,
        partition_assignor=found.assignor or "",
        state="".join(f"_{letter}" if letter.isupper() else letter for letter in found.state)
        .strip("_")
        .upper(),
        type=(found.type or "classic").upper(),
        is_mixed_consumer_group=any(each.is_classic for each in found.members),
        coordinator=links.related("brokers", found.coordinator_id),
        consumers=links.related(*path, "consumers"),
        lag_summary=links.related(*path, "lag-summary"),
    )


def _consumer(links: Links, group: str, member: Member) -> dict[str, Any]:
    path = (_GROUPS, group, "consumers", member.consumer_id)
    return links.resource(
        "KafkaConsumer",
        path,
        f"/consumer-group={group}/consumer={member.consumer_id}",
        consumer_group_id=group,
        consumer_id=member.consumer_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        assignments=links.related(*path, "assignments"),
    )


def _assignment(links: Links, group: str, member: Member, topic: str, partition: int) -> dict[str, Any]:
    consumer = (_GROUPS, group, "consumers", member.consumer_id)
    return links.resource(
        "KafkaConsumerAssignment",
        (*consumer, "assignments", topic, "partitions", partition),
        f"/consumer-group={group}/consumer={member.consumer_id}/assignment={topic}/partition={partition}",
        consumer_group_id=group,
        consumer_id=member.consumer_id,
        topic_name=topic,
        partition_id=partition,
        partition=links.related("topics", topic, "partitions", partition),
        lag=links.related(_GROUPS, group, "lags", topic, "partitions", partition),
    )


def _lag(links: Links, found: GroupDescription, row: PartitionLag) -> dict[str, Any]:
    return links.resource(
        "KafkaConsumerLag",
        (_GROUPS, found.group, "lags", row.topic, "partitions", row.partition),
        f"/consumer-group={found.group}/lag={row.topic}/partition={row.partition}",
        consumer_group_id=found.group,
        topic_name=row.topic,
        partition_id=row.partition,
        current_offset=row.current_offset or 0,
        log_end_offset=row.log_end_offset or 0,
        lag=row.lag or 0,
        consumer_id=row.consumer_id or "",
        instance_id=_instance(found, row.consumer_id or ""),
        client_id=row.client_id or "",
    )


def _instance(found: GroupDescription, consumer: str) -> str | None:
    return next((each.group_instance_id for each in found.members if each.consumer_id == consumer), None)
