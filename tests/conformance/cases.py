"""A conformance case: a sentence, the required capabilities, and the axes of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import pytest

from .client import Client


def case(
    title: str,
    *,
    needs: Sequence[str] = (),
    marks: Callable[[dict[str, Any]], Sequence[pytest.MarkDecorator]] = lambda chosen: (),
    **axes: Sequence[Any],
) -> pytest.MarkDecorator:
    """Run the test once per client that has everything in `needs`, along every axis.

    Title and needs may mention the axes: `@case("Codec {codec}", needs=["codec:{codec}"], codec=CODECS)`. `marks`
    returns the markers of a combination of axis values, in addition to the client's markers.
    """
    return pytest.mark.case(title=title, needs=tuple(needs), marks=marks, axes=axes)


def parameters(
    mark: pytest.Mark, clients: Sequence[type[Client]]
) -> Iterator[tuple[dict[str, Any], type[Client]]]:
    """Return every combination of axis values and client for the case."""
    axes: dict[str, Sequence[Any]] = mark.kwargs["axes"]
    for values in product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        needs = {need.format(**chosen) for need in mark.kwargs["needs"]}
        for client in clients:
            if needs <= client.capabilities:
                yield chosen, client
