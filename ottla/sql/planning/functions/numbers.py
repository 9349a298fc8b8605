"""Numeric functions."""

from __future__ import annotations

from ottla.sql.planning.functions.rules import (
    BIGINT,
    DOUBLE,
    INTEGER,
    INTEGERS,
    NUMBERS,
    Argument,
    Arguments,
    Form,
    Function,
    Types,
    WrongArguments,
    first,
    let,
)
from ottla.sql.sql_types import SqlType

_NAN = "CAST('NaN' AS DOUBLE)"
_MINUS_INFINITY = "CAST('-Infinity' AS DOUBLE)"
#: From this value on, doubles have no fraction.
_WHOLE = "9007199254740992D"

_EARTH_KM, _EARTH_MILES = 6371, 3959
_HAVERSINE = (
    "(2 * {radius} * asin(sqrt(pow(sin(radians({2} - {0}) / 2), 2) + "
    "cos(radians({0})) * cos(radians({2})) * pow(sin(radians({3} - {1}) / 2), 2))))"
)


def _whole(function: str) -> Form:
    """Keep the argument's type in FLOOR and CEIL."""

    def form(arguments: Arguments) -> str:
        [number] = arguments
        if number.is_a(*INTEGERS):
            return number.sql
        if number.is_a("DECIMAL"):
            precision = number.type.precision if number.type is not None else 0
            scale = number.type.scale if number.type is not None else 0
            rounded = f"{function}({number.sql})"
            return f"CAST({rounded} AS DECIMAL({precision},{scale}))" if precision else rounded
        return let(
            f"CASE WHEN isnan(v.a) OR abs(v.a) >= {_WHOLE} THEN v.a ELSE CAST({function}(v.a) AS DOUBLE) END",
            Argument(f"CAST({number.sql} AS DOUBLE)"),
        )

    return form


def _round(arguments: Arguments) -> str:
    """Round half up, including for negative numbers."""
    number = arguments[0]
    if len(arguments) == 1:
        if number.is_a(*INTEGERS):
            return f"CAST({number.sql} AS BIGINT)"
        if not number.is_a("DECIMAL"):
            return f"CAST(floor(CAST({number.sql} AS DOUBLE) + 0.5D) AS BIGINT)"
    places = arguments[1].sql if len(arguments) > 1 else "0"
    if number.is_a("DECIMAL"):
        return let(_half_up("v.a", places), number)
    exact = "CAST(v.a AS DECIMAL(38,18))"
    rounded = _half_up(exact, places)
    return let(
        f"CASE WHEN isnan(v.a) OR abs(v.a) >= {_WHOLE} THEN v.a ELSE CAST({rounded} AS DOUBLE) END",
        Argument(f"CAST({number.sql} AS DOUBLE)"),
    )


def _half_up(number: str, places: str) -> str:
    half = f"CAST(5 * pow(10D, -({places}) - 1) AS DECIMAL(38,18))"
    # Positive numbers round half away from zero, negative numbers half towards zero.
    down = f"-ceil(abs({number}) - {half}, {places})"
    return f"CASE WHEN {number} >= 0 THEN round({number}, {places}) ELSE {down} END"


def _rounded_type(types: Types) -> SqlType | None:
    if len(types) == 1 and types[0] is not None and types[0].name != "DECIMAL":
        return BIGINT
    return SqlType("DECIMAL") if types[0] is not None and types[0].name == "DECIMAL" else types[0]


def _trunc(arguments: Arguments) -> str:
    number = arguments[0]
    if len(arguments) == 1:
        if number.is_a("DECIMAL"):
            return let("CASE WHEN v.a >= 0 THEN floor(v.a) ELSE ceil(v.a) END", number)
        return f"CAST({number.sql} AS BIGINT)"
    places = arguments[1].sql
    exact = Argument(f"CAST({number.sql} AS DECIMAL(38,18))")
    cut = let(f"CASE WHEN v.a >= 0 THEN floor(v.a, {places}) ELSE ceil(v.a, {places}) END", exact)
    return cut if number.is_a("DECIMAL") else f"CAST({cut} AS DOUBLE)"


_LN = (
    f"CASE WHEN {{0}} > 0 THEN ln({{0}}) WHEN {{0}} = 0 THEN {_MINUS_INFINITY} WHEN {{0}} < 0 THEN {_NAN} END"
)


def _log(arguments: Arguments) -> str:
    if len(arguments) == 1:
        return _LN.format(arguments[0].sql)
    return let(
        f"CASE WHEN v.a IS NULL OR v.b IS NULL THEN NULL WHEN v.a <= 0 OR v.a = 1 OR v.b < 0 THEN {_NAN} "
        f"WHEN v.b = 0 THEN {_MINUS_INFINITY} ELSE ln(v.b) / ln(v.a) END",
        *(Argument(f"CAST({each.sql} AS DOUBLE)") for each in arguments),
    )


_MOMENTS = ("DATE", "TIME", "TIMESTAMP")


def _chosen(function: str) -> Form:
    """Skip nulls. Texts become dates or times beside columns of such a type."""

    def form(arguments: Arguments) -> str:
        _check_choices(function.upper(), arguments)
        moment = next((each.type for each in arguments if each.is_a(*_MOMENTS)), None)
        written = [
            f"try_cast({each.sql} AS {moment.ddl})"
            if moment is not None and each.is_a("STRING")
            else each.sql
            for each in arguments
        ]
        return written[0] if len(written) == 1 else f"{function}({', '.join(written)})"

    return form


def _check_choices(name: str, arguments: Arguments) -> None:
    """Refuse arguments for which ksqlDB has no overload, or more than one."""
    given = [each for each in arguments if each.sql != "NULL"]
    shown = ", ".join(
        "null" if each.sql == "NULL" else "any" if each.type is None else str(each.type) for each in arguments
    )
    names = {each.type.name for each in given if each.type is not None}
    ambiguous = f"Function '{name}' cannot be resolved due to ambiguous method parameters ({shown})"
    if arguments and not given:
        raise WrongArguments(ambiguous)
    if len(names) < 2 and arguments:
        return
    if arguments and names <= set(NUMBERS):
        if "DOUBLE" not in names:
            raise WrongArguments(ambiguous)
        return
    texts = [each for each in given if each.is_a("STRING")]
    literals = all(each.sql.startswith("'") for each in texts)
    if not arguments or len(names - {"STRING"}) > 1 or not (names & set(_MOMENTS) and literals):
        raise WrongArguments(f"Function '{name}' does not accept parameters ({shown})")


def _chosen_type(types: Types) -> SqlType | None:
    known = [each for each in types if each is not None]
    moment = next((each for each in known if each.name in _MOMENTS), None)
    if moment is not None or not known:
        return moment
    if any(each.name == "DOUBLE" for each in known):
        return DOUBLE
    if all(each.name == "DECIMAL" for each in known):
        scale = max(each.scale for each in known)
        return SqlType("DECIMAL", max(each.precision - each.scale for each in known) + scale, scale)
    return known[0]


_DOUBLES = (
    "ACOS", "ASIN", "ATAN", "ATAN2", "CBRT", "COS", "COSH", "COT", "DEGREES", "EXP", "PI", "POWER", "RADIANS",
    "SIN", "SINH", "SQRT", "TAN", "TANH",
)  # fmt: skip

FUNCTIONS: dict[str, Function] = {
    **{name: Function({}, DOUBLE) for name in _DOUBLES},
    "ABS": Function({1: "abs({0})"}, first),
    "CEIL": Function({1: _whole("ceil")}, first),
    "FLOOR": Function({1: _whole("floor")}, first),
    "ROUND": Function({1: _round, 2: _round}, _rounded_type),
    "TRUNC": Function({1: _trunc, 2: _trunc}, _rounded_type),
    "SIGN": Function({1: "CAST(sign({0}) AS INT)"}, INTEGER),
    "LN": Function({1: _LN}, DOUBLE),
    "LOG": Function({1: _log, 2: _log}, DOUBLE),
    "GREATEST": Function({None: _chosen("greatest")}, _chosen_type),
    "LEAST": Function({None: _chosen("least")}, _chosen_type),
    "RANDOM": Function({0: "rand()"}, DOUBLE),
    "GEO_DISTANCE": Function(
        {
            4: _HAVERSINE.replace("{radius}", str(_EARTH_KM)),
            5: _HAVERSINE.replace(
                "{radius}", f"CASE WHEN upper({{4}}) LIKE 'MI%' THEN {_EARTH_MILES} ELSE {_EARTH_KM} END"
            ),
        },
        DOUBLE,
    ),
}
