"""`ssl.principal.mapping.rules`, with the examples of Kafka's documentation."""

from __future__ import annotations

import pytest

from ottla.security.principal import BadMappingRules, NoRuleApplies, PrincipalMapper

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("distinguished_name", "name"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("cn=kafka1.example.com,O=x", "KAFKA1.EXAMPLE.COM"),
        ("OU=nothing", "OU=nothing"),
    ],
)
def test_the_first_rule_that_matches_decides(distinguished_name: str, name: str) -> None:
    assert PrincipalMapper(RULES).name(distinguished_name) == name


def test_without_a_rule_nobody_gets_in_and_without_rules_the_name_stays() -> None:
    assert PrincipalMapper().name("CN=a") == "CN=a"
    with pytest.raises(NoRuleApplies, match="CN=a"):
        PrincipalMapper("RULE:^CN=b$/b/").name("CN=a")
    with pytest.raises(NoRuleApplies):
        PrincipalMapper("RULE:CN=a/a/").name("CN=ab")


@pytest.mark.parametrize(
    "rules", ["", "default", "RULE:^CN=(.*)$/$1", "RULE:(/x/", "RULE:a/$1/", "DEFAULT;DEFAULT", "RULE:a/b/X"]
)
def test_rules_that_are_none(rules: str) -> None:
    with pytest.raises(BadMappingRules):
        PrincipalMapper(rules)
