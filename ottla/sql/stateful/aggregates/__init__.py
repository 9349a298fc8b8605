"""ksqlDB's aggregates and user aggregates, one record at a time.

`accumulator` creates an accumulator for a call. Some arguments are settings: the count of TOPK, and the count and null
handling of LATEST_BY_OFFSET. `settings_of` returns how many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.sql.sql_types import SqlType
from ottla.sql.stateful.aggregates.accumulator import Accumulator, Values
from ottla.sql.stateful.aggregates.by_offset import ByOffset
from ottla.sql.stateful.aggregates.collected import (
    Attr,
    CollectList,
    CollectSet,
    CountDistinct,
    Histogram,
)
from ottla.sql.stateful.aggregates.extremes import Extreme, TopK, TopKDistinct
from ottla.sql.stateful.aggregates.numbers import (
    Average,
    Correlation,
    Count,
    StandardDeviation,
    Sum,
    SumList,
    Variance,
)
from ottla.sql.user_functions.catalogue import wanted
from ottla.sql.user_functions.declaring import Overload, Parameter
from ottla.sql.user_functions.running import UserAggregate, fits

__all__ = ["Accumulator", "AggregateCall", "Values", "accumulator", "can_undo", "settings_of"]


@dataclass(frozen=True)
class AggregateCall:
    """A call of an aggregate. `types` belong to the column arguments; `user` is the signature of a Python function."""

    name: str
    types: tuple[SqlType | None, ...]
    settings: tuple[Any, ...] = ()
    user: Overload | None = None

    def parameters(self) -> list[Parameter]:
        assert self.user is not None
        return wanted(self.user, len(self.types) + len(self.settings))[: len(self.types)]


def _latest(call: AggregateCall) -> Accumulator:
    count = next((each for each in call.settings if not isinstance(each, bool)), None)
    ignores = next((each for each in call.settings if isinstance(each, bool)), True)
    return ByOffset(last=call.name.startswith("LATEST"), count=count, ignores_nulls=ignores)


_MAKERS: dict[str, Callable[[AggregateCall], Accumulator]] = {
    "ATTR": lambda _: Attr(),
    "AVG": lambda _: Average(),
    "COLLECT_LIST": lambda _: CollectList(),
    "COLLECT_SET": lambda _: CollectSet(),
    "CORRELATION": lambda _: Correlation(),
    "COUNT": lambda _: Count(),
    "COUNT_DISTINCT": lambda _: CountDistinct(),
    "EARLIEST_BY_OFFSET": _latest,
    "HISTOGRAM": lambda _: Histogram(),
    "LATEST_BY_OFFSET": _latest,
    "MAX": lambda _: Extreme(max),
    "MIN": lambda _: Extreme(min),
    "STDDEV_SAMP": lambda _: Variance(),
    "STDDEV_SAMPLE": lambda _: StandardDeviation(),
    "SUM": lambda call: Sum(call.types[0]),
    "SUM_LIST": lambda call: SumList(None if call.types[0] is None else call.types[0].element),
    "TOPK": lambda call: TopK(call.settings[0], len(call.types) - 1),
    "TOPKDISTINCT": lambda call: TopKDistinct(call.settings[0]),
}


def accumulator(call: AggregateCall) -> Accumulator:
    if call.user is not None:
        return UserAccumulator(call.name, call.user, call.settings)
    return _MAKERS[call.name](call)


def settings_of(name: str, arguments: int) -> int:
    if name in ("LATEST_BY_OFFSET", "EARLIEST_BY_OFFSET"):
        return arguments - 1
    return 1 if name in ("TOPK", "TOPKDISTINCT") else 0


def can_undo(call: AggregateCall) -> bool:
    return call.user.can_undo if call.user is not None else accumulator(call).can_undo


class UserAccumulator(Accumulator):
    """Accumulator for a Python aggregate."""

    def __init__(self, name: str, overload: Overload, settings: Sequence[Any]) -> None:
        self._aggregate = UserAggregate(name, overload, settings)
        self._name = name
        self._returns = overload.returns
        self.can_undo = overload.can_undo

    def initial(self) -> Any:
        return self._aggregate.initial()

    def add(self, state: Any, values: Values, place: int) -> Any:
        return self._aggregate.add(state, values)

    def undo(self, state: Any, values: Values) -> Any:
        return self._aggregate.undo(state, values)

    def merge(self, one: Any, other: Any) -> Any:
        return self._aggregate.merge(one, other)

    def result(self, state: Any) -> Any:
        """Return null for results of the wrong type, as for every Python function."""
        found = self._aggregate.result(state)
        return found if fits(self._name, found, self._returns) else None
