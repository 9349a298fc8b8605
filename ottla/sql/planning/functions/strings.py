"""Functions for strings and bytes."""

from __future__ import annotations

from ottla.sql.planning.functions.rules import (
    BIGINT,
    BYTES,
    DOUBLE,
    INTEGER,
    STRING,
    Argument,
    Arguments,
    Form,
    Function,
    array_of,
    first,
    let,
)
from ottla.sql.sql_types import SqlType

#: Characters removed by Java's trim: all up to the space.
_SPACE = "'" + "".join(f"\\u{code:04x}" for code in range(0x21)) + "'"


def literally(argument: str) -> str:
    """Quote the text as a Java regular expression that matches it literally."""
    return f"concat('\\\\Q', {argument}, '\\\\E')"


# Functions that Spark has only for strings get bytes decoded as ISO 8859-1.
def _latin(bytes_: str) -> str:
    return f"decode({bytes_}, 'ISO-8859-1')"


def _concat(arguments: Arguments) -> str:
    if any(each.is_a("BYTES") for each in arguments):
        present = [f"coalesce({each.sql}, X'')" for each in arguments]
        return f"concat({', '.join(present)})"
    return f"concat_ws('', {', '.join(each.sql for each in arguments)})"


def _concat_ws(arguments: Arguments) -> str:
    separator, *parts = arguments
    if not any(each.is_a("BYTES") for each in arguments):
        return f"concat_ws({', '.join(each.sql for each in arguments)})"
    texts = ", ".join(_latin(each.sql) for each in parts)
    return f"encode(concat_ws({_latin(separator.sql)}, {texts}), 'ISO-8859-1')"


def _pad(function: str) -> Form:
    return "CASE WHEN {1} >= 0 AND length({2}) > 0 THEN " + function + "({0}, CAST({1} AS INT), {2}) END"


def _substring(arguments: Arguments) -> str:
    text, start = arguments[0].sql, arguments[1].sql
    begin = start if start.isdigit() else f"CASE WHEN {start} < -length({text}) THEN 1 ELSE {start} END"
    length = "".join(f", {each.sql}" for each in arguments[2:])
    return f"substring({text}, {begin}{length})"


def _instr(arguments: Arguments) -> str:
    """Render INSTR. A negative position counts from the end and searches backwards."""
    text, searched = arguments[:2]
    position = arguments[2] if len(arguments) > 2 else Argument("1")
    occurrence = arguments[3] if len(arguments) > 3 else Argument("1")
    if len(arguments) == 2:
        return f"instr({text.sql}, {searched.sql})"
    if len(arguments) == 3 and position.sql.isdigit():
        return f"locate({searched.sql}, {text.sql}, {position.sql})"
    places = "filter(sequence(1, length(v.a)), i -> substring(v.a, i, length(v.b)) = v.b)"
    found = (
        f"CASE WHEN v.c < 0 THEN try_element_at(filter({places}, i -> i <= length(v.a) + v.c + 1), -v.d) "
        f"ELSE try_element_at(filter({places}, i -> i >= v.c), v.d) END"
    )
    body = (
        "CASE WHEN v.a IS NULL OR v.b IS NULL OR v.c IS NULL OR v.d IS NULL THEN NULL "
        f"WHEN length(v.a) = 0 OR v.d < 1 THEN 0 ELSE coalesce({found}, 0) END"
    )
    return let(body, text, searched, position, occurrence)


def _split(arguments: Arguments) -> str:
    text, delimiter = arguments
    if text.is_a("BYTES"):
        parts = _split([Argument(_latin(text.sql)), Argument(_latin(delimiter.sql))])
        return f"transform({parts}, x -> encode(x, 'ISO-8859-1'))"
    if delimiter.sql.startswith("'") and len(delimiter.sql) > 2:
        return f"split({text.sql}, {literally(delimiter.sql)})"
    return let(_characters(f"split(v.a, {literally('v.b')})", "v.b"), text, delimiter)


def _regexp_split(arguments: Arguments) -> str:
    text, pattern = arguments
    if pattern.sql.startswith("'") and len(pattern.sql) > 2:
        return f"split({text.sql}, {pattern.sql})"
    return let(_characters("split(v.a, v.b)", "v.b"), text, pattern)


def _characters(otherwise: str, pattern: str) -> str:
    """With an empty separator, every character is a part."""
    each = "transform(sequence(1, length(v.a)), i -> substring(v.a, i, 1))"
    return (
        f"CASE WHEN length({pattern}) = 0 AND length(v.a) > 0 THEN {each} "
        f"WHEN length({pattern}) = 0 THEN array(v.a) ELSE {otherwise} END"
    )


_SPLIT_TO_MAP = (
    "CASE WHEN length({1}) > 0 AND length({2}) > 0 THEN map_from_entries(transform("
    f"filter(split({{0}}, {literally('{1}')}), e -> contains(e, {{2}})), "
    "e -> struct(split_part(e, {2}, 1), split_part(e, {2}, 2)))) END"
)

# Return null if the pattern does not match or the group does not exist.
_EXTRACT = "CASE WHEN {1} RLIKE {0} THEN regexp_extract({1}, {0}, {2}) END"

_MASKS = ("'X'", "'x'", "'n'", "'-'")


def _masked(arguments: Arguments, text: str) -> str:
    given = [each.sql for each in arguments]
    return f"mask({text}, {', '.join([*given, *_MASKS[len(given) :]])})"


def _mask(arguments: Arguments) -> str:
    return _masked(arguments[1:], arguments[0].sql)


def _mask_part(mask_first: bool, from_left: bool) -> Form:
    def form(arguments: Arguments) -> str:
        text, count = arguments[0].sql, arguments[1].sql
        cut = f"least({count}, length({text}))" if from_left else f"greatest(length({text}) - {count}, 0)"
        one, two = f"substring({text}, 1, {cut})", f"substring({text}, {cut} + 1)"
        if mask_first:
            one = _masked(arguments[2:], one)
        else:
            two = _masked(arguments[2:], two)
        return f"concat({one}, {two})"

    return form


_PART_FORMS = (2, 3, 4, 5, 6)

# Encodings

_ENCODINGS = ("hex", "utf8", "ascii", "base64")


def _by_encoding(encoding: Argument, written: dict[str, str]) -> str:
    """Choose the form for the encoding, which is nearly always a literal. Otherwise Spark chooses at run time."""
    chosen = encoding.sql.strip("'").lower()
    if chosen in written:
        return written[chosen]
    cases = " ".join(f"WHEN '{name}' THEN {sql}" for name, sql in written.items())
    return f"CASE lower({encoding.sql}) {cases} END"


def to_bytes(text: str, encoding: Argument) -> str:
    return _by_encoding(
        encoding,
        {
            "hex": f"try_to_binary({text}, 'hex')",
            "utf8": f"CAST({text} AS BINARY)",
            "ascii": f"CAST(regexp_replace({text}, '[^\\\\x00-\\\\x7F]', '?') AS BINARY)",
            "base64": f"try_to_binary({text}, 'base64')",
        },
    )


def from_bytes(bytes_: str, encoding: Argument, lower: bool = False) -> str:
    return _by_encoding(
        encoding,
        {
            "hex": f"lower(hex({bytes_}))" if lower else f"hex({bytes_})",
            "utf8": f"make_valid_utf8(CAST({bytes_} AS STRING))",
            "ascii": f"regexp_replace({_latin(bytes_)}, '[^\\\\x00-\\\\x7F]', '\\uFFFD')",
            "base64": f"base64({bytes_})",
        },
    )


def _encode(arguments: Arguments) -> str:
    text, source, target = arguments
    given = text.sql
    if source.sql.strip("'").lower() == "hex":
        # 0x41, X'41' and 41 are equivalent. Other texts are not hexadecimal.
        plain = f"regexp_replace(regexp_replace({given}, '^0x', ''), '^[xX]\\'(.*)\\'$', '$1')"
        given = f"CASE WHEN {plain} RLIKE '^([0-9a-fA-F]{{2}})*$' THEN {plain} END"
    return from_bytes(to_bytes(given, source), target, lower=True)


def _chr(arguments: Arguments) -> str:
    [code] = arguments
    if code.is_a("STRING"):
        # Java escapes: surrogate pairs form one character beyond the basic plane.
        plain = "\\\\\\\\u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})"
        pair = "\\\\\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\\\\\u[dD][c-fC-F][0-9a-fA-F]{2}"
        return (
            f"CASE WHEN {code.sql} RLIKE '^({plain}|{pair})$' THEN "
            f"decode(unhex(replace({code.sql}, '\\\\u', '')), 'UTF-16BE') END"
        )
    return (
        f"CASE WHEN {code.sql} BETWEEN 0 AND 55295 OR {code.sql} BETWEEN 57344 AND 1114111 THEN "
        f"decode(unhex(lpad(hex({code.sql}), 8, '0')), 'UTF-32') END"
    )


def _uuid_of_bytes(arguments: Arguments) -> str:
    pattern = "'(.{8})(.{4})(.{4})(.{4})(.{12})'"
    return let(
        f"CASE WHEN length(v.a) = 16 THEN regexp_replace(lower(hex(v.a)), {pattern}, '$1-$2-$3-$4-$5') END",
        arguments[0],
    )


def _ordered(size: int, body: str) -> dict[int | None, Form]:
    """Convert bytes to numbers. The default order is big-endian."""

    def form(arguments: Arguments) -> str:
        order = arguments[1] if len(arguments) > 1 else Argument("'BIG_ENDIAN'")
        big = f"hex({arguments[0].sql})"
        # Reverse the pairs of digits.
        little = f"array_join(reverse(regexp_extract_all({big}, '..', 0)), '')"
        digits = f"CASE {order.sql} WHEN 'BIG_ENDIAN' THEN {big} WHEN 'LITTLE_ENDIAN' THEN {little} END"
        return let(f"CASE WHEN length(v.a) = {2 * size} THEN {body} END", Argument(digits))

    return {1: form, 2: form}


_UNSIGNED = "CAST(conv(v.a, 16, 10) AS BIGINT)"
_INT = f"CAST(CASE WHEN {_UNSIGNED} > 2147483647 THEN {_UNSIGNED} - 4294967296 ELSE {_UNSIGNED} END AS INT)"
_LONG = "CAST(conv(v.a, 16, -10) AS BIGINT)"

# Sign, exponent and fraction of an IEEE double.
_HIGH = "CAST(conv(substring(v.a, 1, 3), 16, 10) AS INT)"
_FRACTION = "CAST(conv(substring(v.a, 4), 16, 10) AS DOUBLE)"
_SIGN = f"CASE WHEN {_HIGH} >= 2048 THEN -1D ELSE 1D END"
_EXPONENT = f"({_HIGH} % 2048)"
_DOUBLE = (
    f"CASE WHEN {_EXPONENT} = 2047 AND {_FRACTION} = 0 THEN {_SIGN} * CAST('Infinity' AS DOUBLE) "
    f"WHEN {_EXPONENT} = 2047 THEN CAST('NaN' AS DOUBLE) "
    f"WHEN {_EXPONENT} = 0 THEN {_SIGN} * {_FRACTION} / 4503599627370496D * pow(2D, -1022) "
    f"ELSE {_SIGN} * (1 + {_FRACTION} / 4503599627370496D) * pow(2D, {_EXPONENT} - 1023) END"
)

_STRINGS = SqlType("ARRAY", element=STRING)

FUNCTIONS: dict[str, Function] = {
    "UCASE": Function({1: "upper({0})"}, STRING),
    "LCASE": Function({1: "lower({0})"}, STRING),
    "LEN": Function({1: "length({0})"}, INTEGER),
    "TRIM": Function({1: f"btrim({{0}}, {_SPACE})"}, STRING),
    "CONCAT": Function({None: _concat}, first),
    "CONCAT_WS": Function({None: _concat_ws}, first),
    "REPLACE": Function({3: "replace({0}, {1}, {2})"}, STRING),
    "SUBSTRING": Function({2: _substring, 3: _substring}, first),
    "INSTR": Function({2: _instr, 3: _instr, 4: _instr}, INTEGER),
    "INITCAP": Function({1: "array_join(transform(split({0}, '(?<=\\\\s)'), x -> initcap(x)), '')"}, STRING),
    "LPAD": Function({3: _pad("lpad")}, first),
    "RPAD": Function({3: _pad("rpad")}, first),
    "SPLIT": Function({2: _split}, lambda types: array_of(types[0])),
    "SPLIT_TO_MAP": Function({3: _SPLIT_TO_MAP}, SqlType("MAP", element=STRING)),
    "REGEXP_EXTRACT": Function({2: _EXTRACT.replace("{2}", "0"), 3: _EXTRACT}, STRING),
    "REGEXP_EXTRACT_ALL": Function(
        {2: "regexp_extract_all({1}, {0}, 0)", 3: "regexp_extract_all({1}, {0}, {2})"}, _STRINGS
    ),
    "REGEXP_REPLACE": Function({3: "regexp_replace({0}, {1}, {2})"}, STRING),
    "REGEXP_SPLIT_TO_ARRAY": Function({2: _regexp_split}, _STRINGS),
    "MASK": Function(dict.fromkeys((1, 2, 3, 4, 5), _mask), STRING),
    "MASK_LEFT": Function(dict.fromkeys(_PART_FORMS, _mask_part(True, True)), STRING),
    "MASK_RIGHT": Function(dict.fromkeys(_PART_FORMS, _mask_part(False, False)), STRING),
    "MASK_KEEP_LEFT": Function(dict.fromkeys(_PART_FORMS, _mask_part(False, True)), STRING),
    "MASK_KEEP_RIGHT": Function(dict.fromkeys(_PART_FORMS, _mask_part(True, False)), STRING),
    "CHR": Function({1: _chr}, STRING),
    "ENCODE": Function({3: _encode}, STRING),
    "TO_BYTES": Function({2: lambda given: to_bytes(given[0].sql, given[1])}, BYTES),
    "FROM_BYTES": Function({2: lambda given: from_bytes(given[0].sql, given[1])}, STRING),
    "INT_FROM_BYTES": Function(_ordered(4, _INT), INTEGER),
    "BIGINT_FROM_BYTES": Function(_ordered(8, _LONG), BIGINT),
    "DOUBLE_FROM_BYTES": Function(_ordered(8, _DOUBLE), DOUBLE),
    "UUID": Function({0: "uuid()", 1: _uuid_of_bytes}, STRING),
    "FIELD": Function({None: "CAST(coalesce(array_position(array({rest}), {0}), 0) AS INT)"}, INTEGER),
    "ELT": Function({}, STRING),
    # URLs
    "URL_EXTRACT_HOST": Function({1: "try_parse_url({0}, 'HOST')"}, STRING),
    "URL_EXTRACT_PATH": Function({1: "try_parse_url({0}, 'PATH')"}, STRING),
    "URL_EXTRACT_PORT": Function(
        {1: "CAST(nullif(regexp_extract(try_parse_url({0}, 'AUTHORITY'), ':([0-9]+)$', 1), '') AS INT)"},
        INTEGER,
    ),
    "URL_EXTRACT_PROTOCOL": Function({1: "try_parse_url({0}, 'PROTOCOL')"}, STRING),
    "URL_EXTRACT_QUERY": Function({1: "try_url_decode(try_parse_url({0}, 'QUERY'))"}, STRING),
    "URL_EXTRACT_FRAGMENT": Function({1: "try_url_decode(try_parse_url({0}, 'REF'))"}, STRING),
    "URL_EXTRACT_PARAMETER": Function(
        {2: "try_url_decode(try_parse_url({0}, 'QUERY', replace(url_encode({1}), '+', '%20')))"}, STRING
    ),
    "URL_ENCODE_PARAM": Function({1: "url_encode({0})"}, STRING),
    "URL_DECODE_PARAM": Function({1: "try_url_decode({0})"}, STRING),
}
