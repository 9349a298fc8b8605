"""Records in, records out, with both ways of processing. `make test-sql` runs all cases, `make test-spark` a handful.

Queries wait more than they compute, so several cases run at once on one Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyspark")

from tests.sql.cases import page
from tests.sql.cases.case import Case, Way
from tests.sql.cases.modules import all_cases
from tests.sql.cases.runner import quick, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 4


def _parameters() -> Iterator[Any]:
    for case in all_cases():
        # Refusals happen before there are records.
        for way in case.ways[:1] if case.refused is not None else case.ways:
            marks = [] if case.telling else [pytest.mark.cases]
            yield pytest.param(case, way, marks=marks, id=f"{case.grouped}: {case.name}, {way}")


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Callable[[Case, Way], None]]:
    """Wait for a case and raise its error. All selected cases start in order."""
    chosen = [
        (item.callspec.params["case"], item.callspec.params["way"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec")
    ]
    pool = ThreadPoolExecutor(AT_ONCE)
    with quick(spark) as session:
        futures: dict[tuple[str, str, Way], Future[None]] = {
            (case.grouped, case.name, way): pool.submit(run, session, case, way) for case, way in chosen
        }
        yield lambda case, way: futures[case.grouped, case.name, way].result()
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize(("case", "way"), list(_parameters()))
def test_records_in_records_out(outcomes: Callable[[Case, Way], None], case: Case, way: Way) -> None:
    outcomes(case, way)


def test_no_case_has_the_name_of_another() -> None:
    names = Counter((case.grouped, case.name) for case in all_cases())
    assert [name for name, count in names.items() if count > 1] == []


def test_the_page_says_what_the_cases_say() -> None:
    assert page.PAGE.read_text() == page.page(), "run python -m tests.sql.cases.page"
