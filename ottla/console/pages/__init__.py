"""Page handlers, one module per subject."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.console.access.login import Signer
from ottla.console.pages import (
    alerts,
    audit,
    connectors,
    groups,
    overview,
    placement,
    schemas,
    security,
    topics,
    transactions,
)
from ottla.console.pages.audit import count_audit_routes
from ottla.console.pages.dead_letters import DeadLetters
from ottla.console.pages.groups import group_changes_routes
from ottla.console.pages.login import LoginPages
from ottla.console.pages.messages import Messages
from ottla.console.pages.overview import capacity_routes, flow_routes
from ottla.console.pages.placement import rebalance_routes
from ottla.console.pages.produce import Producing
from ottla.console.pages.sql import Sql
from ottla.console.pages.topics import topic_changes_routes
from ottla.console.settings import ConsoleSettings
from ottla.console.web.app import Route


def all_routes(settings: ConsoleSettings, signer: Signer) -> Iterator[Route]:
    messages = Messages(settings.masks)
    yield from LoginPages(settings, signer).routes()
    yield from overview.routes()
    yield from topics.routes()
    yield from topic_changes_routes()
    yield from messages.routes()
    yield from Producing(messages).routes()
    yield from DeadLetters(messages).routes()
    yield from Sql().routes()
    for routes in (
        alerts.routes,
        groups.routes,
        group_changes_routes,
        transactions.routes,
        schemas.routes,
        connectors.routes,
        flow_routes,
        placement.routes,
        rebalance_routes,
        security.routes,
        audit.routes,
        capacity_routes,
        count_audit_routes,
    ):
        yield from routes()
