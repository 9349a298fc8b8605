"""Functions that the tests load as a file."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any

from ottla.sql import udaf, udf, udtf


@udf(description="The text in upper case, with exclamation marks", author="The shop", version="1.2")
def shout(text: str) -> str:
    return text.upper() + "!"


@shout.overload(description="With so many exclamation marks")
def _shout_times(text: str, times: int) -> str:
    return text.upper() + "!" * times


@udf
def or_none(text: str | None) -> str:
    """What is null is called nothing."""
    return "nothing" if text is None else text


@udf(params=["INT", "INT"], returns="INT")
def divided(one: int, other: int) -> int:
    return one // other


@udf
def price(amount: Annotated[Decimal, "DECIMAL(6, 2)"], times: int) -> Annotated[Decimal, "DECIMAL(8, 2)"]:
    return amount * times


@udf
def total(*numbers: int) -> int:
    return sum(numbers)


@udf
def answer() -> int:
    return 42


@udf
def counted(words: list[str]) -> dict[str, int]:
    return {word: words.count(word) for word in words}


@udf(params=["STRUCT<name STRING, age INT>"], returns="STRUCT<name STRING, age INT>")
def older(person: dict[str, Any]) -> dict[str, Any]:
    return {"name": person["NAME"], "AGE": person["AGE"] + 1}


@udf
def next_day(when: datetime.datetime, day: datetime.date) -> datetime.datetime:
    return when + datetime.timedelta(days=1)


@udf(params=["BIGINT"], returns="BIGINT", arrow=True)
def doubled(numbers: Any) -> Any:
    import pyarrow.compute as pc

    return pc.multiply(numbers, 2)


@udf(returns="BIGINT", params=["STRING"])
def of_another_type(text: str) -> Any:
    return text if text == "wrong" else len(text)


@udtf(description="The words of a text")
def words(text: str) -> Iterator[str]:
    yield from text.split()


@udtf
def up_to(number: int) -> list[int]:
    return list(range(1, number + 1))


@udaf(description="The longest text")
class Longest:
    def initialize(self) -> str:
        return ""

    def aggregate(self, text: str, longest: str) -> str:
        return text if len(text) > len(longest) else longest

    def merge(self, one: str, other: str) -> str:
        return self.aggregate(other, one)


@udaf
class Weighted:
    """The mean by weight, rounded to so many digits."""

    def __init__(self, digits: int) -> None:
        self._digits = digits

    def initialize(self) -> tuple[float, float]:
        return (0.0, 0.0)

    def aggregate(self, value: float, weight: float, sums: tuple[float, float]) -> tuple[float, float]:
        return (sums[0] + value * weight, sums[1] + weight)

    def undo(self, value: float, weight: float, sums: tuple[float, float]) -> tuple[float, float]:
        return (sums[0] - value * weight, sums[1] - weight)

    def merge(self, one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
        return (one[0] + other[0], one[1] + other[1])

    def map(self, sums: tuple[float, float]) -> float:
        return round(sums[0] / sums[1], self._digits) if sums[1] else 0.0
