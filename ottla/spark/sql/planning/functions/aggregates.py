"""Functions over the rows of a group. `{order}` is what says which row came first."""

from __future__ import annotations

from ottla.spark.sql.planning.functions.rules import BIGINT, DOUBLE, Function, array_of, first

FUNCTIONS: dict[str, Function] = {
    "LATEST_BY_OFFSET": Function({1: "max_by({0}, {order}) FILTER (WHERE {0} IS NOT NULL)"}, first),
    "EARLIEST_BY_OFFSET": Function({1: "min_by({0}, {order}) FILTER (WHERE {0} IS NOT NULL)"}, first),
    "COUNT_DISTINCT": Function({1: "CAST(size(collect_set({0})) AS BIGINT)"}, BIGINT),
    "TOPK": Function(
        {2: "slice(sort_array(collect_list({0}), false), 1, {1})"}, lambda types: array_of(types[0])
    ),
    "TOPKDISTINCT": Function(
        {2: "slice(sort_array(collect_set({0}), false), 1, {1})"}, lambda types: array_of(types[0])
    ),
    "STDDEV_SAMPLE": Function({1: "stddev_samp({0})"}, DOUBLE),
    "STDDEV_SAMP": Function({}, DOUBLE),
    "CORRELATION": Function({2: "corr({0}, {1})"}, DOUBLE),
    "COUNT": Function({0: "count(1)", 1: "count({0})"}, BIGINT),
    "SUM": Function({}, first),
    "AVG": Function({}, DOUBLE),
    "MIN": Function({}, first),
    "MAX": Function({}, first),
    "COLLECT_LIST": Function({}, lambda types: array_of(types[0])),
    "COLLECT_SET": Function({}, lambda types: array_of(types[0])),
}
