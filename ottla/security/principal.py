"""Principals: the identity of a client, mapped from certificate names and Kerberos names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

# The identity of a client for quotas and ACLs.

USER_TYPE = "User"


class KafkaPrincipal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        """Format as in ACLs and tools: `User:alice`."""
        return f"{self.type}:{self.name}"


# A client on a listener without authentication.
ANONYMOUS = KafkaPrincipal(USER_TYPE, "ANONYMOUS")

# Map certificate names to principals: `ssl.principal.mapping.rules`.
#
#     RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,DEFAULT
#
# The first rule whose pattern matches the whole distinguished name decides.

_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|\Z)"
)


class BadMappingRules(Exception):
    """A malformed rule. The message names it."""


class NoRuleApplies(Exception):
    """No rule admits the name."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str  # with \\g<1> instead of Java's $1
    change: Callable[[str], str]


class PrincipalMapper:
    def __init__(self, rules: str = "DEFAULT") -> None:
        self._rules = _parse(rules)

    def name(self, distinguished_name: str) -> str:
        """Raises NoRuleApplies."""
        for rule in self._rules:
            if rule is None:
                return distinguished_name
            found = rule.pattern.fullmatch(distinguished_name)
            if found is not None:
                return rule.change(found.expand(rule.replacement))
        raise NoRuleApplies(f"No rule of ssl.principal.mapping.rules applies to {distinguished_name}.")


def _parse(rules: str) -> list[_Rule | None]:
    parsed: list[_Rule | None] = []
    position = 0
    while position < len(rules) or not parsed:
        found = _RULE.match(rules, position)
        if found is None:
            raise BadMappingRules(
                f"'{rules[position:].strip()}' is neither DEFAULT nor RULE:pattern/replacement/[LU]"
            )
        position = found.end()
        if found["default"]:
            parsed.append(None)
            continue
        try:
            pattern = re.compile(_unescaped(found["pattern"]))
        except re.error as error:
            raise BadMappingRules(f"'{found['pattern']}' is not a regular expression: {error}") from None
        replacement = _in_python(_unescaped(found["replacement"]))
        if any(int(number) > pattern.groups for number in re.findall(r"\\g<(\d+)>", replacement)):
            raise BadMappingRules(
                f"'{found['replacement']}' names a group that '{found['pattern']}' does not have"
            )
        change = {"L": str.lower, "U": str.upper}.get(found["case"], str)
        parsed.append(_Rule(pattern, replacement, change))
    return parsed


def _unescaped(text: str) -> str:
    return text.replace("\\/", "/")


def _in_python(replacement: str) -> str:
    return re.sub(r"\$(\d)", r"\\g<\1>", replacement.replace("\\", "\\\\"))


# Map Kerberos principals to user names: `sasl.kerberos.principal.to.local.rules`.
#
#     RULE:[1:$1@$0](.*@EXAMPLE.COM)s/@.*//L
#          ─┬─ ──┬─  ───────┬──────── ──┬── ┬
#           │    │          │           │   └ in lower case (U: upper)
#           │    │          │           └ then replace in it, once or with /g everywhere
#           │    │          └ if that matches as a whole,
#           │    └ make a text of its parts ($0 is the realm),
#           └ for principals with this number of parts
#
# The first matching rule decides. DEFAULT takes the first part of a principal in the broker's own realm. A name that
# still contains / or @ is refused.

_PRINCIPAL = re.compile(r"([^/@]+)(?:/([^/@]+))?(?:@([^/@]+))?")
_KERBEROS_RULE = re.compile(
    r"\s*(?:(DEFAULT)|RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?(L|U)?)\s*"
)
_PARAMETER = re.compile(r"\$(\d)")


class BadRules(Exception):
    """A malformed rule. The message names it."""


class NoNameFor(Exception):
    """No rule admits the principal."""


class _KerberosRule(NamedTuple):
    parts: int
    form: str
    match: re.Pattern[str] | None
    replace: re.Pattern[str] | None
    by: str
    everywhere: bool
    case: str


class KerberosNames:
    """Maps principals by rules, for one default realm."""

    def __init__(self, rules: Iterable[str], realm: str | None) -> None:
        self._realm = realm
        self._rules = [_parse_kerberos_rule(rule) for rule in rules]

    def name(self, principal: str) -> str:
        """Raises NoNameFor."""
        found = _PRINCIPAL.fullmatch(principal)
        if found is None:
            raise NoNameFor(f"'{principal}' is not a principal of Kerberos.")
        service, host, realm = found.groups()
        for rule in self._rules:
            name = self._default(service, realm) if rule is None else _applied(rule, service, host, realm)
            if name is None:
                continue
            if not name or re.search("[/@]", name):
                raise NoNameFor(f"The rules make '{name}' of '{principal}', which is not a name.")
            return name
        raise NoNameFor(f"No rule of sasl.kerberos.principal.to.local.rules applies to '{principal}'.")

    def _default(self, service: str, realm: str | None) -> str | None:
        return service if realm is None or realm == self._realm else None


def _parse_kerberos_rule(text: str) -> _KerberosRule | None:
    found = _KERBEROS_RULE.fullmatch(text)
    if found is None:
        raise BadRules(f"'{text.strip()}' is neither DEFAULT nor RULE:[n:form](match)s/from/to/[g][/L|/U]")
    default, parts, form, match, replace, by, everywhere, case = found.groups()
    if default:
        return None
    try:
        matches = None if match is None else re.compile(match)
        replaces = None if replace is None else re.compile(replace)
    except re.error as error:
        raise BadRules(f"'{text.strip()}' has a pattern that is none: {error}") from None
    if any(int(number) > 2 for number in _PARAMETER.findall(form)):
        raise BadRules(f"'{text.strip()}' names a part that no principal has")
    return _KerberosRule(
        int(parts or 0), form, matches, replaces, by or "", everywhere is not None, case or ""
    )


def _applied(rule: _KerberosRule, service: str, host: str | None, realm: str | None) -> str | None:
    """Return None if the rule does not match this principal."""
    parts = [realm or "", service] + ([] if host is None else [host])
    if rule.parts != len(parts) - 1:
        return None
    try:
        text = _PARAMETER.sub(lambda found: parts[int(found[1])], rule.form)
    except IndexError:
        return None
    if rule.match is not None and rule.match.fullmatch(text) is None:
        return None
    if rule.replace is not None:
        by = re.sub(r"\$(\d)", r"\\g<\1>", rule.by.replace("\\", "\\\\"))
        try:
            text = rule.replace.sub(by, text, count=0 if rule.everywhere else 1)
        except (re.error, IndexError):
            return None
    return {"L": text.lower(), "U": text.upper()}.get(rule.case, text)
