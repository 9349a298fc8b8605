"""All problems that follow from facts. Pure."""

from __future__ import annotations

from ottla.console.health import partitions, services
from ottla.console.health.facts import Facts
from ottla.console.health.problem import Problem, worst_first

_RULES = (
    partitions.of_brokers,
    partitions.of_partitions,
    partitions.of_disks,
    services.of_silent_services,
    services.of_connectors,
    services.of_queries,
    services.of_groups,
    services.of_mirrors,
    services.of_dead_letters,
    services.of_certificates,
    services.of_audit,
)


def problems(facts: Facts) -> list[Problem]:
    """Return the problems, worst first."""
    return worst_first(problem for rule in _RULES for problem in rule(facts))
