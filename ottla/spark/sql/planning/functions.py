"""ksqlDB's functions in Spark's words. Those that both have under the same name pass through.

A template has `{0}`, `{1}` … for the arguments, and `{all}` for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

# name → number of arguments (None is any) → template
Templates = dict[int | None, str]


def _literal_pattern(argument: str) -> str:
    """A pattern of Java that matches the text itself."""
    return f"concat('\\\\Q', {argument}, '\\\\E')"


_EARTH_KM, _EARTH_MILES = 6371, 3959
_HAVERSINE = (
    "(2 * {radius} * asin(sqrt(pow(sin(radians({2} - {0}) / 2), 2) + "
    "cos(radians({0})) * cos(radians({2})) * pow(sin(radians({3} - {1}) / 2), 2))))"
)

SCALAR: dict[str, Templates] = {
    # texts
    "UCASE": {1: "upper({0})"},
    "LCASE": {1: "lower({0})"},
    "LEN": {1: "length({0})"},
    "INSTR": {2: "instr({0}, {1})", 3: "locate({1}, {0}, {2})"},
    "CONCAT": {None: "concat_ws('', {all})"},
    "SPLIT": {2: f"split({{0}}, {_literal_pattern('{1}')})"},
    "SPLIT_TO_MAP": {3: f"str_to_map({{0}}, {_literal_pattern('{1}')}, {_literal_pattern('{2}')})"},
    "REGEXP_EXTRACT": {2: "regexp_extract({1}, {0}, 0)", 3: "regexp_extract({1}, {0}, {2})"},
    "REGEXP_EXTRACT_ALL": {2: "regexp_extract_all({1}, {0}, 0)", 3: "regexp_extract_all({1}, {0}, {2})"},
    "REGEXP_SPLIT_TO_ARRAY": {2: "split({0}, {1})"},
    "MASK": {1: "mask({0}, 'X', 'x', 'n', '-')"},
    "FIELD": {None: "array_position(array({rest}), {0})"},
    "UUID": {0: "uuid()"},
    # JSON
    "EXTRACTJSONFIELD": {2: "get_json_object({0}, {1})"},
    "TO_JSON_STRING": {1: "to_json({0})"},
    "JSON_KEYS": {1: "json_object_keys({0})"},
    # nulls and keys
    "IFNULL": {2: "coalesce({0}, {1})"},
    "AS_VALUE": {1: "{0}"},
    # times
    "TIMESTAMPTOSTRING": {
        2: "date_format(timestamp_millis({0}), {1})",
        3: "date_format(from_utc_timestamp(timestamp_millis({0}), {2}), {1})",
    },
    "STRINGTOTIMESTAMP": {
        2: "unix_millis(try_to_timestamp({0}, {1}))",
        3: "unix_millis(to_utc_timestamp(try_to_timestamp({0}, {1}), {2}))",
    },
    "FORMAT_TIMESTAMP": {2: "date_format({0}, {1})", 3: "date_format(from_utc_timestamp({0}, {2}), {1})"},
    "PARSE_TIMESTAMP": {
        2: "try_to_timestamp({0}, {1})",
        3: "to_utc_timestamp(try_to_timestamp({0}, {1}), {2})",
    },
    "FORMAT_DATE": {2: "date_format({0}, {1})"},
    "PARSE_DATE": {2: "CAST(try_to_timestamp({0}, {1}) AS DATE)"},
    "DATETOSTRING": {2: "date_format(date_from_unix_date({0}), {1})"},
    "STRINGTODATE": {2: "unix_date(CAST(try_to_timestamp({0}, {1}) AS DATE))"},
    "FROM_UNIXTIME": {1: "timestamp_millis({0})"},
    "FROM_DAYS": {1: "date_from_unix_date({0})"},
    "UNIX_TIMESTAMP": {0: "unix_millis(current_timestamp())", 1: "unix_millis({0})"},
    "UNIX_DATE": {0: "unix_date(current_date())", 1: "unix_date({0})"},
    "CONVERT_TZ": {3: "convert_timezone({1}, {2}, {0})"},
    "TIMESTAMPADD": {3: "timestampadd({0}, {1}, {2})"},
    "TIMESTAMPSUB": {3: "timestampadd({0}, -({1}), {2})"},
    "DATEADD": {3: "CAST(timestampadd({0}, {1}, {2}) AS DATE)"},
    "DATESUB": {3: "CAST(timestampadd({0}, -({1}), {2}) AS DATE)"},
    # collections
    "ARRAY_LENGTH": {1: "array_size({0})"},
    "ARRAY_CONCAT": {2: "concat({0}, {1})"},
    "ARRAY_SORT": {1: "array_sort({0})", 2: "sort_array({0}, upper({1}) NOT LIKE 'DESC%')"},
    "SLICE": {3: "slice({0}, {1}, {2} - {1} + 1)"},
    "GENERATE_SERIES": {2: "sequence({0}, {1})", 3: "sequence({0}, {1}, {2})"},
    "MAP_UNION": {2: "map_concat({0}, {1})"},
    "AS_MAP": {2: "map_from_arrays({0}, {1})"},
    # numbers
    "RANDOM": {0: "rand()"},
    "GEO_DISTANCE": {
        4: _HAVERSINE.replace("{radius}", str(_EARTH_KM)),
        5: _HAVERSINE.replace(
            "{radius}", f"CASE WHEN upper({{4}}) LIKE 'MI%' THEN {_EARTH_MILES} ELSE {_EARTH_KM} END"
        ),
    },
    # addresses
    "URL_EXTRACT_HOST": {1: "try_parse_url({0}, 'HOST')"},
    "URL_EXTRACT_PATH": {1: "try_parse_url({0}, 'PATH')"},
    "URL_EXTRACT_PROTOCOL": {1: "try_parse_url({0}, 'PROTOCOL')"},
    "URL_EXTRACT_QUERY": {1: "try_parse_url({0}, 'QUERY')"},
    "URL_EXTRACT_FRAGMENT": {1: "try_parse_url({0}, 'REF')"},
    "URL_EXTRACT_PARAMETER": {2: "try_parse_url({0}, 'QUERY', {1})"},
    "URL_ENCODE_PARAM": {1: "url_encode({0})"},
    "URL_DECODE_PARAM": {1: "try_url_decode({0})"},
}

# `{order}` is what says which row came first.
AGGREGATES: dict[str, Templates] = {
    "LATEST_BY_OFFSET": {1: "max_by({0}, {order}) FILTER (WHERE {0} IS NOT NULL)"},
    "EARLIEST_BY_OFFSET": {1: "min_by({0}, {order}) FILTER (WHERE {0} IS NOT NULL)"},
    "COUNT_DISTINCT": {1: "CAST(size(collect_set({0})) AS BIGINT)"},
    "TOPK": {2: "slice(sort_array(collect_list({0}), false), 1, {1})"},
    "TOPKDISTINCT": {2: "slice(sort_array(collect_set({0}), false), 1, {1})"},
    "STDDEV_SAMPLE": {1: "stddev_samp({0})"},
    "CORRELATION": {2: "corr({0}, {1})"},
    # the same in Spark
    **{
        name: {}
        for name in ("COUNT", "SUM", "AVG", "MIN", "MAX", "COLLECT_LIST", "COLLECT_SET", "STDDEV_SAMP")
    },
}

#: What passes through, for SHOW FUNCTIONS and for completion. Spark has many more.
# fmt: off
SAME = (
    "ABS", "ACOS", "ARRAY_CONTAINS", "ARRAY_DISTINCT", "ARRAY_EXCEPT", "ARRAY_INTERSECT", "ARRAY_JOIN",
    "ARRAY_MAX", "ARRAY_MIN", "ARRAY_REMOVE", "ARRAY_UNION", "ASIN", "ATAN", "CAST", "CBRT", "CEIL", "CHR",
    "COALESCE", "CONCAT_WS", "COS", "COSH", "DEGREES", "ELT", "EXP", "EXPLODE", "FILTER", "FLOOR",
    "GREATEST", "INITCAP", "JSON_ARRAY_LENGTH", "LEAST", "LEFT", "LENGTH", "LN", "LOG", "LPAD", "LTRIM",
    "MAP_KEYS", "MAP_VALUES", "NULLIF", "PI", "POWER", "RADIANS", "REDUCE", "REGEXP_REPLACE", "REPEAT",
    "REPLACE", "REVERSE", "RIGHT", "ROUND", "RPAD", "RTRIM", "SIGN", "SIN", "SINH", "SQRT", "SUBSTRING",
    "TAN", "TANH", "TRANSFORM", "TRANSLATE", "TRIM", "UPPER", "LOWER",
)
# fmt: on

#: ksqlDB has these, and Spark nothing like them, or something else under their name.
REFUSED = {
    "HISTOGRAM": "GROUP BY the value and COUNT(*) instead",
    "ATTR": "use MIN or MAX",
    "CUBE_EXPLODE": "use EXPLODE",
    "TRUNC": "use FLOOR or ROUND",
    "IS_JSON_STRING": "EXTRACTJSONFIELD of a text that is not JSON is NULL",
    "JSON_RECORDS": "declare the column as MAP<STRING, STRING> instead",
    "ENTRIES": "use MAP_KEYS and MAP_VALUES",
}

UNITS_FIRST = frozenset({"TIMESTAMPADD", "TIMESTAMPSUB", "DATEADD", "DATESUB"})


def names() -> list[str]:
    return sorted({*SCALAR, *AGGREGATES, *SAME})


class WrongArguments(Exception):
    pass


def render(name: str, arguments: Sequence[str], order: str) -> str | None:
    """The call in Spark's words; None if it is written the same there."""
    templates = SCALAR.get(name) or AGGREGATES.get(name)
    if not templates:
        return None
    template = templates.get(len(arguments), templates.get(None))
    if template is None:
        wanted = " or ".join(str(count) for count in templates)
        raise WrongArguments(
            f"{name} takes {wanted} argument{'s' if wanted != '1' else ''}, not {len(arguments)}"
        )
    return template.format(*arguments, all=", ".join(arguments), rest=", ".join(arguments[1:]), order=order)
