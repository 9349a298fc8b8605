"""Create, alter and delete topics, after showing a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ottla.client.admin.configs import ConfigEntry, Resource, alter_configs, describe_configs
from ottla.client.admin.offsets import available_offsets, delete_records
from ottla.client.admin.topics import add_partitions, create_topic, delete_topics
from ottla.client.errors import ClientError
from ottla.console.access.roles import Level
from ottla.console.pages.topics import TOPIC, leaders_of, topic_state
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.plan import Change, Plan, is_confirmed, plan_page
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

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
