"""Page handlers, one module per subject."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.console.access.sessions import Signer
from ottla.console.pages import (
    audit,
    capacity,
    connectors,
    count_audit,
    flow,
    group_changes,
    groups,
    overview,
    placement,
    rebalance,
    schemas,
    security,
    topic_changes,
    topics,
    transactions,
)
from ottla.console.pages.dead_letters import DeadLetters
from ottla.console.pages.login import LoginPages
from ottla.console.pages.messages import Messages
from ottla.console.pages.produce import Producing
from ottla.console.pages.sql import Sql
from ottla.console.settings import ConsoleSettings
from ottla.console.web.app import Route


def all_routes(settings: ConsoleSettings, signer: Signer) -> Iterator[Route]:
    messages = Messages(settings.masks)
    yield from LoginPages(settings, signer).routes()
    yield from overview.routes()
    yield from topics.routes()
    yield from topic_changes.routes()
    yield from messages.routes()
    yield from Producing(messages).routes()
    yield from DeadLetters(messages).routes()
    yield from Sql().routes()
    for module in (
        groups,
        group_changes,
        transactions,
        schemas,
        connectors,
        flow,
        placement,
        rebalance,
        security,
        audit,
        capacity,
        count_audit,
    ):
        yield from module.routes()
