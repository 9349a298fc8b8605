"""Spark's report of a failed task becomes the original error's sentence."""

from __future__ import annotations

import pytest

from ottla.client.errors import ClientError
from ottla.mirror.errors import LASTING, reason_of

WRAPPED = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure
  File "worker.py", line 1, in main
{name}: {sentence}
\tat org.apache.spark.api.python.BasePythonRunner"""


@pytest.mark.parametrize("kind", LASTING)
def test_what_somebody_has_to_decide_is_recognized_behind_spark(kind: type[ClientError]) -> None:
    failure = RuntimeError(WRAPPED.format(name=f"ottla.mirror.errors.{kind.__name__}", sentence="So it is."))
    found = reason_of(failure)
    assert (type(found), found.message) == (kind, "So it is.")


def test_other_errors_may_go_away_by_themselves() -> None:
    found = reason_of(
        RuntimeError(WRAPPED.format(name="ottla.client.errors.ClientError", sentence="It is away."))
    )
    assert (type(found), found.message) == (ClientError, "It is away.")
