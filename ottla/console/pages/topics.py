"""Pages of topics, and changes to them."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ottla.client.admin.configs import ConfigEntry, Resource, alter_configs, describe_configs
from ottla.client.admin.groups import GroupListing
from ottla.client.admin.offsets import Partition, available_offsets, delete_records
from ottla.client.admin.topics import add_partitions, create_topic, delete_topics, describe_topics
from ottla.client.errors import ClientError
from ottla.console.access.hidden_values import without_logins
from ottla.console.access.roles import Level
from ottla.console.cluster.source import TopicState
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.paging import Change, Plan, is_confirmed, listing, plan_page
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

# Settings for pages: effective value, source, and documentation.

_SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "this topic",
    "DYNAMIC_BROKER_CONFIG": "this broker, set at run time",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "all brokers, set at run time",
    "STATIC_BROKER_CONFIG": "server.properties",
    "DEFAULT_CONFIG": "default",
    "DYNAMIC_GROUP_CONFIG": "this group",
}


def _shown(value: str | None, sensitive: bool) -> str | None:
    return None if sensitive or value is None else without_logins(value)


def setting_rows(entries: Iterable[ConfigEntry]) -> list[dict[str, Any]]:
    rows = [
        {
            "name": entry.name,
            "value": _shown(entry.value, entry.sensitive),
            "sensitive": entry.sensitive,
            "read_only": entry.read_only,
            "source": entry.source,
            "where": _SOURCES.get(entry.source, entry.source),
            "default": _shown(entry.default, entry.sensitive),
            "is_default": entry.is_default,
            "documentation": entry.documentation,
            "synonyms": [
                {"name": each.name, "value": _shown(each.value, entry.sensitive),
                 "where": _SOURCES.get(each.source, each.source)}
                for each in entry.synonyms
            ],
        }
        for entry in entries
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (row["is_default"], row["name"]))


# List of topics, and topic details: partitions and settings.

TOPIC = f"{CLUSTER}/topics/{{topic}}"
#: The list omits offsets of topics with more partitions, because they would slow it down.
_MOST_PARTITIONS = 500


def routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/topics", topics)
    yield Route("GET", TOPIC, to_partitions, json=False)
    yield Route("GET", f"{TOPIC}/partitions", partitions)
    yield Route("GET", f"{TOPIC}/settings", settings)
    yield Route("GET", f"{TOPIC}/groups", groups_of_topic)


async def topics(visit: Visit) -> Page | Response:
    """List topics from the snapshot. Only the visible rows cost requests for counts and sizes."""
    site = visit.site
    snapshot = await visit.snapshot()
    internal = visit.query.get("internal") == "1"
    visible = [topic for topic in snapshot.topics.values() if internal or not topic.internal]
    listed = listing(
        visible,
        visit.query,
        text=lambda topic: topic.name,
        columns={
            "name": lambda topic: topic.name,
            "partitions": lambda topic: len(topic.partitions),
            "replication": lambda topic: topic.replication_factor,
            "problems": lambda topic: topic.offline * 1_000_000 + topic.under_replicated,
            "rate": lambda topic: site.rates.of_topic(topic.name, len(topic.partitions)),
        },
        default="name",
        others=("internal",),
    )
    small = [topic for topic in listed.rows if len(topic.partitions) <= _MOST_PARTITIONS]
    leaders = leaders_of(small)
    starts, ends = await site.ask(lambda source: source.offsets(list(leaders)))
    sizes = await site.ask(lambda source: source.sizes([topic.name for topic in small], leaders))
    rows = [_row(visit, topic, starts, ends, sizes) for topic in listed.rows]
    return Page(
        "topics/topics.html",
        {"topics": rows, **listed.plain()},
        more={"listed": listed, "internal": internal},
    )


def leaders_of(topics: list[TopicState]) -> dict[Partition, int]:
    return {
        (topic.name, each.number): each.leader
        for topic in topics
        for each in topic.partitions
        if each.leader is not None
    }


def _row(
    visit: Visit,
    topic: TopicState,
    starts: dict[Partition, int],
    ends: dict[Partition, int],
    sizes: dict[Partition, int],
) -> dict[str, Any]:
    keys = [(topic.name, each.number) for each in topic.partitions]
    counted = [key for key in keys if key in starts and key in ends]
    return {
        "name": topic.name,
        "internal": topic.internal,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "under_replicated": topic.under_replicated,
        "offline": topic.offline,
        "messages": sum(ends[key] - starts[key] for key in counted) if counted else None,
        "size": sum(sizes[key] for key in keys if key in sizes)
        if any(key in sizes for key in keys)
        else None,
        "messages_per_second": visit.site.rates.of_topic(topic.name, len(topic.partitions)),
    }


async def topic_state(visit: Visit) -> TopicState:
    """Raises HttpError 404."""
    name = visit.params["topic"]
    snapshot = await visit.snapshot()
    if name not in snapshot.topics:
        snapshot = await visit.snapshot(renewed=True)
    if name not in snapshot.topics:
        raise HttpError(404, 404, f"Topic '{name}' does not exist.")
    return snapshot.topics[name]


async def to_partitions(visit: Visit) -> Page | Response:
    return visit.redirect(visit.url("topics", visit.params["topic"], "partitions"))


async def partitions(visit: Visit) -> Page | Response:
    name = visit.params["topic"]
    await topic_state(visit)
    [topic] = await visit.site.calls.read(describe_topics, [name], with_offsets=True, with_sizes=True)
    needed = (await visit.site.ask(lambda source: source.min_isr([name]))).get(name)
    rows: list[dict[str, Any]] = [
        {
            "partition": each.partition,
            "leader": each.leader,
            "replicas": each.replicas,
            "isr": each.isr,
            "offline_replicas": each.offline_replicas,
            "start_offset": each.start_offset,
            "end_offset": each.end_offset,
            "messages": each.messages,
            "size": each.size,
            "is_preferred": bool(each.replicas) and each.leader == each.replicas[0],
            "is_under_replicated": len(each.isr) < len(each.replicas),
            "is_below_min_isr": needed is not None and len(each.isr) < needed,
        }
        for each in topic.partitions
    ]
    known = [row["messages"] for row in rows if row["messages"] is not None]
    sizes = [row["size"] for row in rows if row["size"] is not None]
    data = {
        "topic": name,
        "topic_id": _readable(topic.topic_id),
        "internal": topic.internal,
        "replication_factor": topic.replication_factor,
        "min_insync_replicas": needed,
        "partitions": rows,
        "messages": sum(known) if known else None,
        "size": sum(sizes) if sizes else None,
        "messages_per_second": visit.site.rates.of_topic(name, len(rows)),
    }
    return Page("topics/partitions.html", data, more={"tab": "partitions"})


def _readable(topic_id: str) -> str:
    try:
        return "" if not any(base64.urlsafe_b64decode(topic_id + "==")) else topic_id
    except ValueError:
        return topic_id


async def settings(visit: Visit) -> Page | Response:
    name = visit.params["topic"]
    state = await topic_state(visit)
    entries = await visit.site.calls.read(describe_configs, Resource("topic", name), documentation=True)
    return Page(
        "topics/settings.html",
        {"topic": name, "internal": state.internal, "settings": setting_rows(entries)},
        more={"tab": "settings", "partition_count": len(state.partitions)},
    )


async def groups_of_topic(visit: Visit) -> Page | Response:
    """Show groups with committed offsets here. One request per coordinator covers all visible groups."""
    name = visit.params["topic"]
    state = await topic_state(visit)
    snapshot = await visit.snapshot()
    chosen: list[GroupListing] = list(snapshot.groups.values())[:1000]
    positions = await visit.site.ask(lambda source: source.positions(chosen))
    rows = []
    for group, of_group in positions.items():
        here = {key: each for key, each in of_group.items() if key[0] == name}
        if here:
            lags = [each.lag for each in here.values() if each.lag is not None]
            listing_ = snapshot.groups[group]
            rows.append({"group": group, "type": listing_.type, "state": listing_.state,
                         "partitions": len(here), "lag": sum(lags) if lags else None})  # fmt: skip
    rows.sort(key=lambda row: str(row["group"]))
    return Page(
        "topics/groups.html",
        {"topic": name, "internal": state.internal, "groups": rows},
        more={"tab": "groups", "is_cut": len(snapshot.groups) > len(chosen)},
    )


# Create, alter and delete topics, after showing a plan.

_BLANK = {"name": "", "partitions": "", "replication": "", "configs": ""}
_CONFIG_LINE = re.compile(r"\s*([A-Za-z0-9._-]+)\s*=\s*(.*?)\s*")


def topic_changes_routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/new-topic", new_topic, Level.OPERATOR, json=False)
    yield Route("POST", f"{CLUSTER}/new-topic", create, Level.OPERATOR)
    yield Route("POST", f"{TOPIC}/add-partitions", more_partitions, Level.OPERATOR)
    yield Route("POST", f"{TOPIC}/settings", change_setting, Level.OPERATOR)
    yield Route("POST", f"{TOPIC}/delete", delete, Level.ADMIN)
    yield Route("POST", f"{TOPIC}/delete-records", purge, Level.ADMIN)


async def new_topic(visit: Visit) -> Page | Response:
    return Page("topics/new_topic.html", {}, more={"given": _BLANK, "problem": None})


async def create(visit: Visit) -> Page | Response:
    form = {**_BLANK, **visit.form}
    try:
        name = visit.needed("name")
        visit.require(Level.OPERATOR, name)
        partitions = _number(form, "partitions")
        replication = _number(form, "replication")
        configs = parse_configs(form["configs"])
        asked: dict[str, Any] = {
            "partitions": partitions,
            "replication_factor": replication,
            "configs": configs,
        }
        if is_confirmed(visit):
            await visit.change("create topic", name, create_topic, name, **asked)
            return visit.redirect(visit.url("topics", name, "partitions"), f"Topic '{name}' was created.")
        # Let the broker validate the request.
        await visit.site.calls.read(create_topic, name, **asked, validate_only=True)
    except (ClientError, HttpError) as error:
        if isinstance(error, HttpError) and error.status == 403:
            raise
        return Page("topics/new_topic.html", {}, 400, {"given": form, "problem": error.message})
    changes = [
        Change("topic", "does not exist", name),
        Change("partitions", "", str(partitions or "as the broker's default says")),
        Change("replication factor", "", str(replication or "as the broker's default says")),
        *(Change(key, "", value) for key, value in configs.items()),
    ]
    return plan_page(visit, Plan(f"Create topic {name}", changes, "Create topic", visit.url("new-topic")))


def _number(form: dict[str, str], name: str) -> int | None:
    text = form[name].strip()
    if not text:
        return None
    if not text.isdecimal() or not 0 < int(text) < 100_000:
        raise HttpError(400, 400, f"{name.capitalize()} must be a whole number.")
    return int(text)


def parse_configs(text: str) -> dict[str, str]:
    """Parse `name = value` lines. Raises HttpError 400."""
    found = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        match = _CONFIG_LINE.fullmatch(line)
        if match is None:
            raise HttpError(400, 400, f"'{line}' is not 'name = value'.")
        found[match[1]] = match[2]
    return found


async def more_partitions(visit: Visit) -> Page | Response:
    state = await topic_state(visit)
    total = _number({"partitions": "", **visit.form}, "partitions") or 0
    back = visit.url("topics", state.name, "partitions")
    if total <= len(state.partitions):
        raise HttpError(
            400, 400, f"'{state.name}' has {len(state.partitions)} partitions, and cannot have fewer."
        )
    if is_confirmed(visit):
        await visit.change("add partitions", state.name, add_partitions, state.name, total)
        return visit.redirect(back, f"'{state.name}' has {total} partitions now.")
    warning = "Keys will be in other partitions than before: consumers that rely on their order see both."
    change = Change("partitions", str(len(state.partitions)), str(total))
    plan = Plan(f"Add partitions to {state.name}", [change], "Add partitions", back, [warning])
    return plan_page(visit, plan)


async def change_setting(visit: Visit) -> Page | Response:
    """Set a config, or with an empty value and `reset` restore its default."""
    name = visit.params["topic"]
    key = visit.needed("name")
    value = visit.form.get("value", "").strip()
    is_reset = visit.form.get("reset") == "1"
    resource = Resource("topic", name)
    back = visit.url("topics", name, "settings")
    if is_confirmed(visit):
        await visit.change(
            f"{'reset' if is_reset else 'set'} {key}",
            name,
            alter_configs,
            resource,
            set_={} if is_reset else {key: value},
            delete=[key] if is_reset else [],
        )
        return visit.redirect(back, f"{key} of '{name}' was {'reset' if is_reset else 'set'}.")
    entries = {each.name: each for each in await visit.site.calls.read(describe_configs, resource)}
    if key not in entries:
        raise HttpError(400, 400, f"There is no setting {key}.")
    now = entries[key]
    # Let the broker validate the value before the plan.
    await visit.site.calls.read(
        alter_configs,
        resource,
        set_={} if is_reset else {key: value},
        delete=[key] if is_reset else [],
        validate_only=True,
    )
    then = _without_own(now) if is_reset else value
    plan = Plan(f"Change {key} of {name}", [Change(key, now.value or "", then)], "Change setting", back)
    return plan_page(visit, plan)


def _without_own(entry: ConfigEntry) -> str:
    """Return the value without the topic's own override, possibly from a config with another name."""
    others = [
        each for each in entry.synonyms if each.source != "DYNAMIC_TOPIC_CONFIG" and each.value is not None
    ]
    if not others:
        return entry.default or "as the brokers' settings say"
    first = others[0]
    return str(first.value) if first.name == entry.name else f"{first.name} = {first.value}"


async def delete(visit: Visit) -> Page | Response:
    state = await topic_state(visit)
    name = state.name
    if is_confirmed(visit, name):
        await visit.change("delete topic", name, delete_topics, [name])
        return visit.redirect(visit.url("topics"), f"Topic '{name}' was deleted.")
    count = await _messages(visit)
    changes = [Change("topic", name, "deleted"), Change("messages", f"{count:,}", "deleted")]
    warnings = ["Deleted messages cannot be brought back."]
    if state.internal:
        warnings.insert(0, "This topic is internal: the cluster needs it.")
    plan = Plan(
        f"Delete topic {name}", changes, "Delete topic", visit.url("topics", name, "partitions"),
        warnings, is_dangerous=True, typed=name,
    )  # fmt: skip
    return plan_page(visit, plan)


async def purge(visit: Visit) -> Page | Response:
    state = await topic_state(visit)
    name = state.name
    back = visit.url("topics", name, "partitions")
    settings = await visit.site.calls.read(describe_configs, Resource("topic", name), synonyms=False)
    if any(each.name == "cleanup.policy" and each.value == "compact" for each in settings):
        raise HttpError(
            400, 400, f"'{name}' is compacted: the cluster deletes its messages one by one, by a null for each key. "
            "Set its cleanup.policy to compact,delete first."
        )  # fmt: skip
    if is_confirmed(visit, name):
        every: dict[tuple[str, int], int | None] = {(name, each.number): None for each in state.partitions}
        await visit.change("delete records", name, delete_records, every)
        return visit.redirect(back, f"All messages of '{name}' were deleted.")
    changes = [Change("messages", f"{await _messages(visit):,}", "deleted")]
    warnings = ["Deleted messages cannot be brought back."]
    plan = Plan(f"Delete all messages of {name}", changes, "Delete messages", back, warnings,
                is_dangerous=True, typed=name)  # fmt: skip
    return plan_page(visit, plan)


async def _messages(visit: Visit) -> int:
    state = await topic_state(visit)
    starts, ends = await visit.site.calls.read(available_offsets, list(leaders_of([state])))
    return sum(ends[key] - starts[key] for key in ends if key in starts)
