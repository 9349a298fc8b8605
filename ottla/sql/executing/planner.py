"""Planning of SELECTs over the catalogue, checked against the existing topics."""

from __future__ import annotations

from ottla.sql.brokers import Brokers
from ottla.sql.catalogue import Catalogue
from ottla.sql.errors import SqlError
from ottla.sql.parsing import statements as s
from ottla.sql.planning.join_plan import check_partitions
from ottla.sql.planning.plan import Plan, plan_select
from ottla.sql.sources import Source
from ottla.sql.user_functions import UserFunctions


class Planner:
    def __init__(self, catalogue: Catalogue, brokers: Brokers, functions: UserFunctions) -> None:
        self._catalogue = catalogue
        self._brokers = brokers
        self._functions = functions

    def plan(self, select: s.Select, *, batch: bool = False, reader: bool = False) -> Plan:
        plan = plan_select(
            select, self._catalogue.find, batch=batch, reader=reader, functions=self._functions
        )
        there = self._brokers.existing({source.topic for source in plan.sources.values()})
        for source in plan.sources.values():
            if source.topic not in there:
                raise SqlError(
                    f"The topic '{source.topic}' of {source.name} does not exist.", select.source.position
                )
        if not batch:
            check_partitions(select.source.alias, plan.sources, plan.joins, self._partitions)
        return plan

    def _partitions(self, source: Source) -> int | None:
        facts = self._brokers.topic(source.topic)
        return None if facts is None else facts.partitions
