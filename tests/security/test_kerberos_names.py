"""Rules of sasl.kerberos.principal.to.local.rules, with the examples of Kafka's documentation."""

from __future__ import annotations

import pytest

from ottla.security.principal import BadRules, KerberosNames, NoNameFor

REALM = "EXAMPLE.COM"


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        (["DEFAULT"], "ann@EXAMPLE.COM", "ann"),
        (["DEFAULT"], "kafka/host.example.com@EXAMPLE.COM", "kafka"),
        (["RULE:[1:$1@$0](.*@EXAMPLE.COM)s/@.*//"], "ann@EXAMPLE.COM", "ann"),
        (["RULE:[1:$1@$0](.*@EXAMPLE.COM)s/@.*///L"], "ANN@EXAMPLE.COM", "ann"),
        (["RULE:[1:$1@$0](.*@EXAMPLE.COM)s/@.*///U"], "ann@EXAMPLE.COM", "ANN"),
        (["RULE:[1:$1@$0](user@MYDOMAIN.COM)s/@.*//", "DEFAULT"], "user@MYDOMAIN.COM", "user"),
        (["RULE:[2:$1](App..)s/([^ ]*)/$1/L", "DEFAULT"], "App01/h@EXAMPLE.COM", "app01"),
        (["RULE:[2:$1;$2](^.*;admin$)s/;admin$///U"], "ann/admin@X", "ANN"),
        (["RULE:[1:$1](ann)", "DEFAULT"], "ann@ELSEWHERE", "ann"),
        (["RULE:[1:a$1b](.*)s/x/y/g"], "xx@X", "ayyb"),
        (["RULE:[1:a$1b](.*)s/x/y/"], "xx@X", "ayxb"),
        (["RULE:[2:$2]", "DEFAULT"], "ann@EXAMPLE.COM", "ann"),
    ],
)
def test_the_first_rule_that_applies_decides(rules: list[str], principal: str, name: str) -> None:
    assert KerberosNames(rules, REALM).name(principal) == name


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        (["DEFAULT"], "ann@ELSEWHERE"),
        (["DEFAULT"], "a/b/c@EXAMPLE.COM"),
        (["DEFAULT"], ""),
        (["DEFAULT"], "@EXAMPLE.COM"),
        (["RULE:[1:$1@$0]"], "ann@EXAMPLE.COM"),
        (["RULE:[1:$1](bob)"], "ann@EXAMPLE.COM"),
        (["RULE:[1:$1](bo)"], "bob@EXAMPLE.COM"),
        (["RULE:[1:$1]s/ann//"], "ann@EXAMPLE.COM"),
    ],
)
def test_who_has_no_name_is_not_let_in(rules: list[str], principal: str) -> None:
    with pytest.raises(NoNameFor):
        KerberosNames(rules, REALM).name(principal)


@pytest.mark.parametrize(
    "rule", ["", "RULE", "RULE:[x:$1]", "RULE:[1:$1](()", "RULE:[1:$3]", "default", "RULE:[1:$1]x"]
)
def test_what_is_no_rule_is_named(rule: str) -> None:
    with pytest.raises(BadRules):
        KerberosNames([rule], REALM)
