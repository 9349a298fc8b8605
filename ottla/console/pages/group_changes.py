"""Reset a group's offsets, with a preview per partition, and delete groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ottla.client.admin.groups import GroupListing, delete_groups
from ottla.client.admin.offsets import (
    Partition,
    earliest_offsets,
    latest_offsets,
    offsets_at,
)
from ottla.client.admin.reset import OffsetChange, Target, clamp, execute_reset, plan_offsets, plan_reset
from ottla.client.admin.share_groups import delete_share_group, move_share_group, share_positions
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.console.access.roles import Level
from ottla.console.messages.selection import moment
from ottla.console.pages.groups import GROUP, group_listing
from ottla.console.web.app import Route
from ottla.console.web.plan import Change, Plan, is_confirmed, plan_page
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

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
