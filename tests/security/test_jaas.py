"""JAAS lines from users, and from attackers."""

from __future__ import annotations

import pytest

from ottla.security.jaas import BadJaas, parse_entry, parse_file, server_section, system_properties

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_a_line_as_the_documentation_has_it() -> None:
    module = parse_entry(
        f'{PLAIN} required \\n username="admin" password="it\'s" user_admin="a;b=c\\"d" user_x=y ;'.replace(
            "\\n", "\n"
        )
    )
    assert module.mechanisms == ("PLAIN",)
    assert module.options["password"] == "it's"
    assert module.users() == {"admin": 'a;b=c"d', "x": "y"}
    assert parse_entry(f"{SCRAM} required;").options == {}


def test_a_file_with_sections_and_comments() -> None:
    found = parse_file(
        f"""
        // of the broker
        KafkaServer {{ {PLAIN} required
            user_ann="secret"; # one
            {SCRAM} required; }};
        /* and of its
           clients */
        client.KafkaClient {{ {SCRAM} optional username='b'; }};
        """
    )
    assert [each.name for each in found["KafkaServer"]] == [PLAIN, SCRAM]
    assert found["client.KafkaClient"][0].options == {"username": "b"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a login module is missing"),
        (PLAIN, "'required' after the login module is missing"),
        (f"{PLAIN} need;", "'required' is expected"),
        (f'{PLAIN} required password="secret"', "an option, or ';' at the end is missing"),
        (f"{PLAIN} required password;", "'=' is missing"),
        (f'{PLAIN} required password="secret;', "quotation mark"),
        (f"{PLAIN} required; {SCRAM} required;", "more than one"),
        ("com.sun.security.auth.module.JndiLoginModule required;", "JndiLoginModule is not known"),
        ("com.sun.security.auth.module.LdapLoginModule required;", "LdapLoginModule is not known"),
    ],
)
def test_what_is_refused_and_that_no_secret_is_repeated(text: str, why: str) -> None:
    with pytest.raises(BadJaas, match=why) as refused:
        parse_entry(text)
    assert "secret" not in str(refused.value)


def test_options_are_not_shown() -> None:
    assert "hunter2" not in repr(parse_entry(f'{PLAIN} required password="hunter2";'))


DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"


def test_the_section_of_a_listener_comes_before_that_of_all() -> None:
    sections = parse_file(
        f"""
        KafkaServer {{ {PLAIN} required user_ann="all"; }};
        internal.KafkaServer {{ {SCRAM} required; {PLAIN} required user_ann="internal"; }};
        Client {{ {DIGEST} required username="zk"; }};
        """
    )
    assert [each.name for each in server_section(sections, "INTERNAL") or ()] == [SCRAM, PLAIN]
    assert (server_section(sections, "EXTERNAL") or [])[0].users() == {"ann": "all"}
    assert server_section({}, "EXTERNAL") is None


def test_modules_of_others_are_refused_only_where_they_would_be_used() -> None:
    jndi = "com.sun.security.auth.module.JndiLoginModule"
    sections = parse_file(f"KafkaServer {{ {jndi} required; }}; Other {{ {jndi} required; }};")
    with pytest.raises(BadJaas, match="JndiLoginModule is not known"):
        server_section(sections, "SASL_PLAINTEXT")


def test_system_properties_are_read_out_of_kafka_opts() -> None:
    assert system_properties({"KAFKA_OPTS": '-Xmx1g -Da.b=c "-Dd=e f" -Dg -D h=i'}) == {
        "a.b": "c",
        "d": "e f",
        "g": "",
        "": "",
    }
    assert system_properties({"KAFKA_OPTS": "-Da=b 'broken"}) == {"a": "b"}
    assert system_properties({}) == {}
