"""Map Kerberos principals to user names: `sasl.kerberos.principal.to.local.rules`.

    RULE:[1:$1@$0](.*@EXAMPLE.COM)s/@.*//L
         ─┬─ ──┬─  ───────┬──────── ──┬── ┬
          │    │          │           │   └ in lower case (U: upper)
          │    │          │           └ then replace in it, once or with /g everywhere
          │    │          └ if that matches as a whole,
          │    └ make a text of its parts ($0 is the realm),
          └ for principals with this number of parts

The first matching rule decides. DEFAULT takes the first part of a principal in the broker's own realm. A name that
still contains / or @ is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

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
