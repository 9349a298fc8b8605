"""Pages of groups, and changes to them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from ottla.client.admin.groups import GroupListing, PartitionLag, delete_groups, describe_group, group_lag
from ottla.client.admin.offsets import (
    Partition,
    available_offsets,
    earliest_offsets,
    latest_offsets,
    offsets_at,
)
from ottla.client.admin.reset import OffsetChange, Target, clamp, execute_reset, plan_offsets, plan_reset
from ottla.client.admin.share_groups import (
    delete_share_group,
    describe_share_group,
    move_share_group,
    share_positions,
)
from ottla.client.admin.streams_groups import describe_streams_group, streams_lag
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.console.access.roles import Level
from ottla.console.messages.reading import timestamp_at
from ottla.console.messages.selection import moment
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.paging import Change, Plan, is_confirmed, listing, plan_page
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

# List of groups, and group details: lag by partition and over time, and members.

GROUP = f"{CLUSTER}/groups/{{group}}"
#: Partitions for which the page determines the waiting time.
_MOST_TIMES = 50
#: Lines that remain distinguishable in a chart.
_MOST_LINES = 8


def routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/groups", groups, of="group")
    yield Route("GET", GROUP, to_lag, of="group", json=False)
    yield Route("GET", f"{GROUP}/lag", lag, of="group")


async def groups(visit: Visit) -> Page | Response:
    """List groups. Only the visible rows cost a request for their lag."""
    site = visit.site
    snapshot = await visit.snapshot()
    kind = visit.query.get("type", "")
    listed = listing(
        [each for each in snapshot.groups.values() if not kind or each.type.lower() == kind],
        visit.query,
        text=lambda each: each.group,
        columns={
            "group": lambda each: each.group,
            "type": lambda each: each.type,
            "state": lambda each: each.state,
            "lag": lambda each: _last_lag(visit, each.group),
        },
        default="group",
        others=("type",),
    )
    positions = await site.ask(lambda source: source.positions(listed.rows))
    rows = []
    for each in listed.rows:
        found = {key: at for key, at in positions.get(each.group, {}).items() if visit.sees(key[0])}
        lags = [at.lag for at in found.values() if at.lag is not None]
        rows.append(
            {
                "group": each.group,
                "type": each.type or "Classic",
                "state": each.state,
                "topics": len({topic for topic, _ in found}),
                "lag": sum(lags) if lags else None,
            }
        )
    return Page(
        "groups/groups.html", {"groups": rows, **listed.plain()}, more={"listed": listed, "type": kind}
    )


def _last_lag(visit: Visit, group: str) -> int | None:
    history = _history(visit, group)
    return history[-1][1] if history else None


def _history(visit: Visit, group: str) -> list[tuple[float, int]]:
    lags = visit.site.lags
    if visit.user.may_everywhere(Level.VIEWER):
        return lags.total(group)
    found: dict[float, int] = {}
    for (topic, _), points in lags.partitions(group).items():
        if visit.sees(topic):
            for moment, behind in points:
                found[moment] = found.get(moment, 0) + behind
    return sorted(found.items())


async def group_listing(visit: Visit) -> GroupListing:
    """Raises HttpError 404."""
    name = visit.params["group"]
    snapshot = await visit.snapshot()
    if name not in snapshot.groups:
        snapshot = await visit.snapshot(renewed=True)
    if name not in snapshot.groups:
        raise HttpError(404, 404, f"Group '{name}' does not exist.")
    return snapshot.groups[name]


async def to_lag(visit: Visit) -> Page | Response:
    return visit.redirect(visit.url("groups", visit.params["group"], "lag"))


async def lag(visit: Visit) -> Page | Response:
    found = await group_listing(visit)
    visit.site.lags.want(found.group)
    data = await visit.site.calls.read(_described, found)
    rows = [row for row in data["partitions"] if row["topic"] is None or visit.sees(row["topic"])]
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    times = [row["time_lag"] for row in rows if row["time_lag"] is not None]
    members = [
        {**member, "partitions": [key for key in member["partitions"] if visit.sees(key[0])]}
        for member in data["members"]
    ]
    data |= {
        "partitions": rows,
        "members": members,
        "lag": sum(lags) if lags else None,
        "time_lag": max(times, default=None),
    }
    by_partition = {
        key: points for key, points in visit.site.lags.partitions(found.group).items() if visit.sees(key[0])
    }
    return Page(
        "groups/group.html",
        data,
        more={
            "history": _history(visit, found.group),
            "lines": _lines(by_partition),
            "hidden_lines": max(len(by_partition) - _MOST_LINES, 0),
        },
    )


def _lines(history: dict[Partition, list[tuple[float, int]]]) -> list[tuple[str, list[tuple[float, int]]]]:
    """Return the partitions with the largest lag, at most eight: more lines are indistinguishable."""
    furthest = sorted(history.items(), key=lambda item: item[1][-1][1], reverse=True)[:_MOST_LINES]
    return [(f"{topic}-{number}", points) for (topic, number), points in sorted(furthest)]


def _described(cluster: Cluster, found: GroupListing) -> dict[str, Any]:
    if found.type == "Share":
        data = _share(cluster, found.group)
    elif found.type == "Streams":
        data = _streams(cluster, found.group)
    else:
        data = _consumers(cluster, found)
    _add_times(cluster, data["partitions"])
    return {"group": found.group, **data}


def _consumers(cluster: Cluster, found: GroupListing) -> dict[str, Any]:
    described = describe_group(cluster, found.group)
    return {
        "type": described.type,
        "state": described.state,
        "assignor": described.assignor,
        "coordinator": described.coordinator_id,
        "members": [
            _member(each.consumer_id, each.client_id, each.host, each.group_instance_id, each.partitions)
            for each in described.members
        ],
        "partitions": [_row(each) for each in group_lag(cluster, described)],
        "protocol": found.protocol,
    }


def _member(
    member: str, client: str, host: str, instance: str | None, partitions: list[Partition]
) -> dict[str, Any]:
    return {
        "member_id": member,
        "client_id": client,
        "host": host,
        "instance_id": instance,
        "partitions": partitions,
    }


def _row(lag: PartitionLag) -> dict[str, Any]:
    return {
        "topic": lag.topic,
        "partition": lag.partition,
        "offset": lag.current_offset,
        "end_offset": lag.log_end_offset,
        "lag": lag.lag,
        "member_id": lag.consumer_id,
        "client_id": lag.client_id,
        "time_lag": None,
    }


def _share(cluster: Cluster, group: str) -> dict[str, Any]:
    described = describe_share_group(cluster, group)
    positions = share_positions(cluster, group)
    _, ends = available_offsets(cluster, [(each.topic, each.partition) for each in positions])
    return {
        "type": "Share",
        "state": described.state,
        "assignor": "",
        "coordinator": described.coordinator.id,
        "members": [
            _member(each.consumer_id, each.client_id, each.host, None, each.partitions)
            for each in described.members
        ],
        "partitions": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "offset": each.start_offset,
                "end_offset": ends.get((each.topic, each.partition)),
                "lag": each.lag,
                "member_id": None,
                "client_id": None,
                "time_lag": None,
            }
            for each in positions
        ],
        "protocol": "share",
    }


def _streams(cluster: Cluster, group: str) -> dict[str, Any]:
    described = describe_streams_group(cluster, group)
    return {
        "type": "Streams",
        "state": described.state,
        "assignor": "",
        "coordinator": described.coordinator.id,
        "members": [
            _member(each.member_id, each.client_id, each.process_id, None, []) for each in described.members
        ],
        "partitions": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "offset": each.offset,
                "end_offset": each.end,
                "lag": each.lag,
                "member_id": None,
                "client_id": None,
                "time_lag": None,
            }
            for each in streams_lag(cluster, described)
        ],
        "protocol": "streams",
    }


def _add_times(cluster: Cluster, rows: list[dict[str, Any]]) -> None:
    waiting = [row for row in rows if row["lag"] and row["offset"] is not None]
    behind = sorted(waiting, key=lambda row: -row["lag"])[:_MOST_TIMES]
    for row in behind:
        try:
            timestamp = timestamp_at(cluster, (row["topic"], row["partition"]), row["offset"])
        except ClientError:
            continue
        if timestamp is not None:
            row["time_lag"] = max(time.time() - timestamp / 1000, 0.0)
    for row in rows:
        if row["lag"] == 0:
            row["time_lag"] = 0.0


# Reset a group's offsets, with a preview per partition, and delete groups.

KINDS = ("earliest", "latest", "timestamp", "offset", "shift")


def group_changes_routes() -> Iterator[Route]:
    yield Route("GET", f"{GROUP}/reset", form, Level.OPERATOR, of="group", json=False)
    yield Route("POST", f"{GROUP}/reset", preview, Level.OPERATOR, of="group")
    yield Route("POST", f"{GROUP}/offsets", execute, Level.OPERATOR, of="group")
    yield Route("POST", f"{GROUP}/delete", delete, Level.ADMIN, of="group")


async def form(visit: Visit) -> Page | Response:
    found = await group_listing(visit)
    positions = await visit.site.ask(lambda source: source.positions([found]))
    topics = sorted({topic for topic, _ in positions.get(found.group, {}) if visit.sees(topic)})
    return Page(
        "groups/reset.html", {"group": found.group, "topics": topics}, more={"kinds": KINDS, "problem": None}
    )


async def preview(visit: Visit) -> Page | Response:
    """Show the planned offsets, each still editable."""
    found = await group_listing(visit)
    topic = visit.form.get("topic", "").strip()
    try:
        target = _target(visit)
        changes = await visit.site.calls.read(_plan, found, target, [topic] if topic else [])
    except (ClientError, HttpError) as error:
        page = await form(visit)
        assert isinstance(page, Page)
        return Page(page.template, page.data, 400, {**page.more, "problem": error.message})
    if not all(visit.sees(each.topic) for each in changes):
        raise HttpError(
            403, 403, "The group reads topics that your role does not cover: choose one that it does."
        )
    for each in changes:
        visit.require(Level.OPERATOR, each.topic)
    return Page("groups/reset_preview.html", {"group": found.group, "changes": changes})


def _target(visit: Visit) -> Target:
    kind = visit.needed("kind")
    if kind not in KINDS:
        raise HttpError(400, 400, f"Move to one of {', '.join(KINDS)}.")
    if kind == "timestamp":
        return Target("timestamp", moment(visit.needed("time")))
    if kind in ("earliest", "latest"):
        return Target(kind)  # type: ignore[arg-type]
    try:
        return Target(kind, int(visit.needed("value")))  # type: ignore[arg-type]
    except ValueError:
        raise HttpError(
            400, 400, "The number of the offset, or by how many to move, must be a whole number."
        ) from None


def _plan(cluster: Cluster, found: GroupListing, target: Target, topics: Sequence[str]) -> list[OffsetChange]:
    if found.type != "Share":
        return plan_reset(cluster, found.group, target, topics=topics, all_topics=not topics)
    positions = {
        (each.topic, each.partition): each.start_offset for each in share_positions(cluster, found.group)
    }
    keys = [key for key in positions if not topics or key[0] in topics]
    starts, ends = earliest_offsets(cluster, keys), latest_offsets(cluster, keys)
    wanted: dict[Partition, int] = starts if target.kind == "earliest" else ends
    if target.kind == "timestamp":
        wanted = offsets_at(cluster, keys, target.value)
    elif target.kind == "offset":
        wanted = dict.fromkeys(keys, target.value)
    elif target.kind == "shift":
        wanted = {key: (positions[key] or 0) + target.value for key in keys}
    return [
        OffsetChange(found.group, *key, positions[key], clamp(wanted[key], starts[key], ends[key]))
        for key in keys
    ]


async def execute(visit: Visit) -> Page | Response:
    found = await group_listing(visit)
    wanted: dict[Partition, int] = {}
    for topic, number, offset in zip(
        visit.values("topic"), visit.values("partition"), visit.values("offset"), strict=False
    ):
        if not number.isdecimal() or not offset.strip().isdecimal():
            raise HttpError(400, 400, f"The offset of {topic}-{number} must be a whole number.")
        visit.require(Level.OPERATOR, topic)
        wanted[topic, int(number)] = int(offset)
    if not wanted:
        raise HttpError(400, 400, "There is nothing to move.")
    details: dict[str, Any] = {f"{topic}-{number}": offset for (topic, number), offset in wanted.items()}
    try:
        if found.type == "Share":
            await visit.site.calls.change(move_share_group, found.group, wanted)
        else:
            changes = await visit.site.calls.read(plan_offsets, found.group, wanted)
            await visit.site.calls.change(execute_reset, changes)
    except ClientError as error:
        await visit.log("move offsets", found.group, f"failed: {error.message}", details=details)
        raise
    await visit.log("move offsets", found.group, details=details)
    moved = "1 partition" if len(wanted) == 1 else f"{len(wanted)} partitions"
    return visit.redirect(visit.url("groups", found.group, "lag"), f"The offsets of {moved} were moved.")


async def delete(visit: Visit) -> Page | Response:
    found = await group_listing(visit)
    name = found.group
    if is_confirmed(visit, name):
        if found.type == "Share":
            await visit.change("delete group", name, delete_share_group, name)
        else:
            await visit.change("delete group", name, delete_groups, [name])
        return visit.redirect(visit.url("groups"), f"Group '{name}' was deleted.")
    changes = [Change("group", name, "deleted"), Change("committed offsets", "kept", "deleted")]
    warning = "Consumers that join it later begin where auto.offset.reset says."
    plan = Plan(f"Delete group {name}", changes, "Delete group", visit.url("groups", name, "lag"), [warning],
                is_dangerous=True, typed=name)  # fmt: skip
    return plan_page(visit, plan)
