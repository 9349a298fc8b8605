"""Promise: every broker applies the ACLs in the store, regardless of their author, and misses none."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.broker.security.authorization import add_entries, remove_entries
from ottla.metadata.acl_nodes import LITERAL_CHANGES, acl_path
from ottla.security.acls import Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from tests.cluster.members import members, until

ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
PREFIX = ResourcePattern(ResourceType.GROUP, "g-", PatternType.PREFIXED)


def entry(user: str, operation: Operation = Operation.READ) -> Entry:
    return Entry(f"User:{user}", "*", operation, Permission.ALLOW)


ANN, BOB, CAT = entry("ann"), entry("bob"), entry("cat")


async def test_what_one_broker_adds_and_removes_all_know(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await add_entries(found[0].store, ORDERS, [ANN, BOB, CAT])
        await add_entries(found[1].store, PREFIX, [ANN])
        await until(lambda: all(each.authorizer.entries(PREFIX) == {ANN} for each in found))
        await until(lambda: all(each.authorizer.entries(ORDERS) == {ANN, BOB, CAT} for each in found))
        # The test removes one of three ACLs. The others stay in force everywhere, and the authorizer stays enabled.
        assert await remove_entries(found[2].store, ORDERS, BOB.__eq__) == {BOB}
        await until(lambda: all(each.authorizer.entries(ORDERS) == {ANN, CAT} for each in found))
        await remove_entries(found[0].store, ORDERS, lambda _: True)
        await until(lambda: all(not each.authorizer.entries(ORDERS) for each in found))
        assert await found[0].store.exists(acl_path(ORDERS)) is None


async def test_brokers_that_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        users = [entry(f"user-{number}") for number in range(8)]
        await asyncio.gather(
            *(add_entries(found[number % 3].store, ORDERS, [each]) for number, each in enumerate(users))
        )
        await until(lambda: all(each.authorizer.entries(ORDERS) == set(users) for each in found))
        await asyncio.gather(*(remove_entries(found[0].store, ORDERS, each.__eq__) for each in users[:5]))
        await until(lambda: all(each.authorizer.entries(ORDERS) == set(users[5:]) for each in found))


async def test_notifications_that_were_missed_do_not_matter(tmp_path: Path) -> None:
    async with members(tmp_path, 1) as [member]:
        store = member.store
        await add_entries(store, ORDERS, [ANN])
        await until(lambda: member.authorizer.entries(ORDERS) == {ANN})
        await member.feed.stop()
        await remove_entries(store, ORDERS, ANN.__eq__)
        await add_entries(store, PREFIX, [BOB])
        for name in await store.children(LITERAL_CHANGES):
            await store.delete(f"{LITERAL_CHANGES}/{name}")
        await member.feed.load()
        assert member.authorizer.entries(ORDERS) == frozenset()
        assert member.authorizer.entries(PREFIX) == {BOB}
        member.feed.start(member.replicas)
        await add_entries(store, ORDERS, [CAT])
        await until(lambda: member.authorizer.entries(ORDERS) == {CAT})


async def test_a_node_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    async with members(tmp_path, 1) as [member]:
        await add_entries(member.store, ORDERS, [ANN])
        await until(lambda: member.authorizer.entries(ORDERS) == {ANN})
        await member.store.set(acl_path(ORDERS), b"{not json")
        await member.store.create(f"{LITERAL_CHANGES}/acl_changes_", b"TOPIC:orders", sequential=True)
        await member.store.create(f"{LITERAL_CHANGES}/acl_changes_", b"no resource", sequential=True)
        await member.feed.sync()
        assert member.authorizer.entries(ORDERS) == {ANN}
