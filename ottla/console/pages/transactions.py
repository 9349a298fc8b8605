"""Transactions: open and hanging ones with their duration, and aborting them."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ottla.client.admin.transactions import (
    abort_transaction,
    describe_transaction,
    find_hanging,
    force_terminate,
    list_transactions,
)
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.console.access.roles import Level
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.paging import Change, Plan, is_confirmed, listing, plan_page
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

_MOST_PARTITIONS = 5000
#: Kafka's default of transaction.max.timeout.ms, the maximum duration of a transaction.
_HANGING_MS = 15 * 60 * 1000


def routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/transactions", transactions, everywhere=True)
    yield Route("POST", f"{CLUSTER}/transactions/end", end, Level.ADMIN, everywhere=True)
    yield Route("POST", f"{CLUSTER}/transactions/abort", abort, Level.ADMIN, everywhere=True)


async def transactions(visit: Visit) -> Page | Response:
    """List transactions. Only the visible rows cost requests for details."""
    found = await visit.site.calls.read(list_transactions)
    listed = listing(
        found,
        visit.query,
        text=lambda each: each.transactional_id,
        columns={"id": lambda each: each.transactional_id, "state": lambda each: each.state},
        default="id",
        others=("hanging", "minutes"),
    )
    rows = await visit.site.calls.read(_described, [each.transactional_id for each in listed.rows])
    hanging = []
    minutes = visit.query.get("minutes", "")
    if visit.query.get("hanging") == "1":
        longer = int(minutes) * 60_000 if minutes.isdecimal() and len(minutes) < 6 else _HANGING_MS
        hanging = await _hanging(visit, longer)
    return Page(
        "groups/transactions.html",
        {"transactions": rows, "hanging": hanging, **listed.plain()},
        more={"listed": listed, "looked": visit.query.get("hanging") == "1", "minutes": minutes or "15"},
    )


def _described(cluster: Cluster, ids: list[str]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    now = time.time()
    for transactional_id in ids:
        try:
            each = describe_transaction(cluster, transactional_id)
        except ClientError:
            continue
        if each is not None:
            age = None if each.start_ms is None or each.state != "Ongoing" else now - each.start_ms / 1000
            rows.append(
                {
                    "transactional_id": transactional_id,
                    "state": each.state,
                    "producer_id": each.producer_id,
                    "producer_epoch": each.producer_epoch,
                    "timeout_ms": each.timeout_ms,
                    "open_seconds": age,
                    "partitions": each.partitions,
                    "coordinator": each.coordinator,
                }
            )
    return rows


async def _hanging(visit: Visit, longer_than_ms: int) -> list[dict[str, object]]:
    snapshot = await visit.snapshot()
    keys = [
        (topic.name, each.number)
        for topic in snapshot.topics.values()
        for each in topic.partitions
        if each.leader is not None
    ][:_MOST_PARTITIONS]
    found = await visit.site.calls.read(find_hanging, keys, broker=None, longer_than_ms=longer_than_ms)
    return [
        {
            "topic": topic,
            "partition": number,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "coordinator_epoch": producer.coordinator_epoch,
            "start_offset": producer.transaction_start,
            "last_timestamp": producer.last_timestamp,
        }
        for (topic, number), producer in found
    ]


async def end(visit: Visit) -> Page | Response:
    """Fence the producer; its coordinator aborts the open transaction."""
    name = visit.needed("transactional_id")
    if is_confirmed(visit):
        await visit.change("end transaction", name, force_terminate, name)
        return visit.redirect(visit.url("transactions"), f"The transaction of '{name}' was ended.")
    changes = [
        Change(f"transaction of {name}", "open", "aborted"),
        Change("its producer", "writes", "fenced"),
    ]
    warning = "A producer that still uses this id fails, and has to be started again."
    plan = Plan(f"End the transaction of {name}", changes, "End transaction", visit.url("transactions"), [warning],
                is_dangerous=True)  # fmt: skip
    return plan_page(visit, plan)


async def abort(visit: Visit) -> Page | Response:
    topic = visit.needed("topic")
    try:
        numbers = [
            int(visit.needed(name))
            for name in ("partition", "producer_id", "producer_epoch", "coordinator_epoch")
        ]
    except ValueError:
        raise HttpError(400, 400, "Partition, producer and epochs must be whole numbers.") from None
    partition, producer_id, producer_epoch, coordinator_epoch = numbers
    where = f"{topic}-{partition}"
    if is_confirmed(visit):
        await visit.change(
            "abort hanging transaction",
            where,
            abort_transaction,
            (topic, partition),
            producer_id,
            producer_epoch,
            coordinator_epoch,
        )
        return visit.redirect(visit.url("transactions"), f"The hanging transaction in {where} was aborted.")
    changes = [Change(f"transaction of producer {producer_id} in {where}", "open", "aborted")]
    plan = Plan(f"Abort a hanging transaction in {where}", changes, "Abort it", visit.url("transactions"),
                is_dangerous=True)  # fmt: skip
    return plan_page(visit, plan)
