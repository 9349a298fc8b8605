"""Functions of a session, and overload resolution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.sql.errors import SqlError
from ottla.sql.sql_types import SqlType
from ottla.sql.user_functions.declaring import Overload, Parameter, UserFunction

#: Each type widens to the types after it.
_WIDER = ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE")

Types = Sequence[SqlType | None]


class UserFunctions:
    """User functions by name. `reserved` names are taken."""

    def __init__(self, functions: Iterable[UserFunction] = (), reserved: Iterable[str] = ()) -> None:
        self._by_name: dict[str, UserFunction] = {}
        taken = set(reserved)
        for each in functions:
            if each.name in taken:
                raise SqlError(f"The function {each.name} of {each.path or 'Python'} is there already.")
            if not each.name.replace("_", "a").isalnum() or each.name[0].isdigit():
                raise SqlError(f"{each.name} cannot be the name of a function.")
            there = self._by_name.get(each.name)
            if there is None:
                self._by_name[each.name] = each
            elif there.kind != each.kind:
                raise SqlError(f"{each.name} cannot be both {there.kind} and {each.kind}.")
            else:
                merged = [*there.overloads, *each.overloads]
                self._by_name[each.name] = UserFunction(
                    each.name, there.kind, there.description, there.author, there.version, merged,
                    there.run, there.path,
                )  # fmt: skip

    def get(self, name: str) -> UserFunction | None:
        return self._by_name.get(name)

    def all(self) -> list[UserFunction]:
        return [self._by_name[name] for name in sorted(self._by_name)]

    def is_aggregate(self, name: str) -> bool:
        function = self._by_name.get(name)
        return function is not None and function.kind == "AGGREGATE"

    def result_type(self, name: str, types: Types) -> SqlType | None:
        function = self._by_name.get(name)
        number = None if function is None else chosen(function, types)
        if function is None or number is None:
            return None
        return function.overloads[number].returns


def chosen(function: UserFunction, types: Types) -> int | None:
    """Return the overload for these types: exact before widened, and fixed before variadic."""
    fitting = [
        (cost, overload.is_variadic, number)
        for number, overload in enumerate(function.overloads)
        if (cost := _cost(overload, types)) is not None
    ]
    return min(fitting)[2] if fitting else None


def wanted(overload: Overload, count: int) -> list[Parameter]:
    parameters = [*overload.parameters]
    if overload.is_variadic:
        more = count - len(overload.settings) - len(parameters) + 1
        parameters = [*parameters[:-1], *[parameters[-1]] * max(more, 0)]
    return [*parameters, *overload.settings]


def _cost(overload: Overload, types: Types) -> int | None:
    parameters = wanted(overload, len(types))
    if len(parameters) != len(types):
        return None
    total = 0
    for parameter, given in zip(parameters, types, strict=True):
        cost = _widening(given, parameter.type)
        if cost is None:
            return None
        total += cost
    return total


def _widening(given: SqlType | None, parameter: SqlType) -> int | None:
    """Return the widening distance, or None if the type does not fit. Unknown types always fit."""
    if given is None or given == parameter:
        return 0
    if given.name in _WIDER and parameter.name in _WIDER:
        far = _WIDER.index(parameter.name) - _WIDER.index(given.name)
        return far if far >= 0 else None
    if given.name != parameter.name:
        return None
    if given.element is not None and parameter.element is not None:
        return _widening(given.element, parameter.element)
    # Match structs by their field names.
    theirs, ours = ({each.name for each in kind.fields} for kind in (given, parameter))
    return 1 if theirs == ours else None


def shown(kind: SqlType) -> str:
    """Format a type like ksqlDB, which prints VARCHAR and INT in signatures."""
    return str(kind).replace("STRING", "VARCHAR").replace("INTEGER", "INT")


def signature(function: UserFunction, overload: Overload) -> str:
    parameters = [f"{each.name} {shown(each.type)}" for each in (*overload.parameters, *overload.settings)]
    if overload.is_variadic:
        last = overload.parameters[-1]
        parameters[len(overload.parameters) - 1] = f"{last.name} {shown(last.type)}[]"
    return f"{function.name}({', '.join(parameters)})"


def refusal(function: UserFunction, types: Types) -> str:
    given = ", ".join("?" if each is None else str(each) for each in types)
    alternatives = " or ".join(signature(function, each) for each in function.overloads)
    return f"Function '{function.name}' does not accept parameters ({given}). Valid alternatives are: {alternatives}."


def description(function: UserFunction) -> str:
    facts = [
        ("Name", function.name),
        ("Author", function.author),
        ("Version", function.version),
        ("Overview", function.description),
        ("Type", function.kind),
        ("Jar", function.path),
        ("Variations", ""),
    ]
    lines = [f"{name:<11} : {value}".rstrip() for name, value in facts if value or name == "Variations"]
    for each in function.overloads:
        lines += [
            "",
            f"\tVariation   : {signature(function, each)}",
            f"\tReturns     : {shown(each.returns)}",
        ]
        if each.description:
            lines.append(f"\tDescription : {each.description}")
    return "\n".join(lines)
