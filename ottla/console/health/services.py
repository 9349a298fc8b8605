"""Problems of groups, connectors, queries, mirrors, dead letters, certificates and audits. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.console.health.facts import Facts
from ottla.console.health.problem import Problem
from ottla.console.health.trends import grown, is_rising, is_stuck, per_second, was_rising

#: A dead letter is news for this long.
NEWS_SECONDS = 600.0
_WARN_DAYS = 21.0
_ERROR_DAYS = 3.0
_FAILED = frozenset({"ERROR", "FAILED", "LOST"})


def of_groups(facts: Facts) -> Iterator[Problem]:
    for group, points in sorted(facts.lags.items()):
        listing = facts.snapshot.groups.get(group)
        if listing is None or not points:
            continue
        behind = f"{round(points[-1][1]):,}"
        page = ("groups", group, "lag")
        has_members = listing.state not in ("Empty", "Dead")
        if was_rising(points):
            rate = f", by {per_second(points):,.0f} a second" if is_rising(points) else ""
            cause = "its consumers are too slow" if has_members else "it has no members"
            fix = (
                "Add consumers (at most one per partition), or find out why they are slow."
                if has_members
                else "Start its consumers, or delete the group if nobody needs it."
            )
            yield Problem(
                "warning", "groups", group,
                f"The lag of group '{group}' has risen to {behind} messages{rate}: {cause}.", fix, page,
            )  # fmt: skip
        elif has_members and is_stuck(points):
            yield Problem(
                "warning", "groups", group,
                f"Group '{group}' has members, but commits nothing and stays {behind} messages behind.",
                "Look at the logs of its consumers: they may hang at a message or never commit.", page,
            )  # fmt: skip


def of_connectors(facts: Facts) -> Iterator[Problem]:
    for each in facts.observed.connectors:
        page = ("connectors", each.name, "state")
        if each.state == "FAILED":
            yield Problem(
                "error", "connectors", each.name, f"Connector '{each.name}' failed{_because(each.cause)}",
                "Correct its settings if they are the cause, then restart it.", page,
            )  # fmt: skip
        failed = [task for task in each.tasks if task.state == "FAILED"]
        if failed:
            numbers = ", ".join(str(task.number) for task in failed)
            which = f"Task {numbers}" if len(failed) == 1 else f"Tasks {numbers}"
            yield Problem(
                "error", "connectors", each.name,
                f"{which} of connector '{each.name}' failed{_because(failed[0].cause)}",
                "Remove the cause, then restart the task on the connector's page.", page,
            )  # fmt: skip


def of_queries(facts: Facts) -> Iterator[Problem]:
    for query in facts.observed.queries:
        if query.state.upper() in _FAILED:
            yield Problem(
                "error", "queries", query.name, f"Query '{query.name}' failed{_because(query.cause)}",
                f"Run EXPLAIN {query.name}; for the reason, then terminate the query and create it again.", ("sql",),
            )  # fmt: skip
    for pipeline in facts.observed.pipelines:
        if pipeline.state.upper() in _FAILED:
            yield Problem(
                "error", "pipelines", pipeline.name, f"Pipeline '{pipeline.name}' failed{_because(pipeline.cause)}",
                f"Run 'ottla pipeline status {pipeline.name}' for the log, then start it again.", ("flow",),
            )  # fmt: skip


def of_mirrors(facts: Facts) -> Iterator[Problem]:
    for name, points in sorted(facts.observed.mirrors.items()):
        if points and (was_rising(points) or is_stuck(points)):
            yield Problem(
                "warning", "mirrors", name,
                f"Mirror '{name}' falls behind: {round(points[-1][1]):,} messages are not copied yet.",
                "Check that the mirror runs and that it reaches both clusters.", ("flow",),
            )  # fmt: skip


def of_dead_letters(facts: Facts) -> Iterator[Problem]:
    for each in facts.observed.dead_letters:
        new = round(grown(each.ends, facts.now - NEWS_SECONDS))
        if not each.waiting:
            continue
        waiting = "1 dead letter waits" if each.waiting == 1 else f"{each.waiting:,} dead letters wait"
        more = f"; {new:,} arrived in the last ten minutes" if new else ""
        yield Problem(
            "warning" if new else "note", "dead letters", each.topic, f"{waiting} in '{each.topic}'{more}.",
            "Look at the reasons, correct the cause, then send the letters back.",
            ("topics", each.topic, "dead-letters"),
        )  # fmt: skip


def of_certificates(facts: Facts) -> Iterator[Problem]:
    for each in sorted(facts.observed.certificates, key=lambda one: one.days_left):
        if each.days_left >= _WARN_DAYS:
            continue
        if each.days_left <= 0:
            text = f"The certificate of {each.server} ({each.subject}) has expired."
        else:
            days = "less than a day" if each.days_left < 1 else f"{each.days_left:.0f} days"
            text = f"The certificate of {each.server} ({each.subject}) expires in {days}."
        yield Problem(
            "error" if each.days_left < _ERROR_DAYS else "warning", "certificates", each.server, text,
            "Renew it. A broker of ours loads the new files without a restart.", ("alerts",),
        )  # fmt: skip


def of_audit(facts: Facts) -> Iterator[Problem]:
    if facts.audit_log is not None:
        yield Problem(
            "error", "audit", "log", facts.audit_log,
            "Make room on the disk or correct the file's permissions: until then the console changes nothing.",
            ("changes",),
        )  # fmt: skip
    counted: dict[tuple[str, str, str], int] = {}
    for each in facts.observed.audit:
        key = (each.topic, each.tier, each.kind)
        counted[key] = counted.get(key, 0) + abs(each.missing)
    for (topic, tier, kind), records in sorted(counted.items()):
        amount = f" of {records:,} records" if records else ""
        yield Problem(
            "error", "audit", topic, f"The count audit found {kind}{amount} in '{topic}' at tier {tier}.",
            "Compare the tiers on the page of the count audit, then look at the job between them.",
            ("count-audit",),
        )  # fmt: skip


_PAGES = {"Connect": "connectors", "SQL": "sql", "Schema registry": "schemas"}


def of_silent_services(facts: Facts) -> Iterator[Problem]:
    for name, sentence in sorted(facts.observed.silent.items()):
        yield Problem(
            "error", "services", name, sentence, f"Start {name}, or correct its URL in the console's settings.",
            (_PAGES.get(name, "alerts"),),
        )  # fmt: skip


def _because(cause: str) -> str:
    return f": {cause.rstrip('.')}." if cause else "."
