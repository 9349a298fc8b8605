"""`ottla users …` against a broker that keeps SCRAM credentials."""

from __future__ import annotations

import re

import pytest

from ottla.client.connection import Connection
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker(security="SASL_PLAINTEXT") as broker:
        yield broker


@pytest.fixture(scope="module")
def users(broker, tmp_path_factory, new_ottla):
    """`users("add", "ann")` runs `ottla users add ann` as the admin."""
    file = tmp_path_factory.mktemp("admin") / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in broker.client_config().items()))
    ottla = new_ottla(OTTLA_COMMAND_CONFIG=str(file), OTTLA_BOOTSTRAP_SERVER="localhost:9092")
    return lambda *args, **options: ottla("users", *args, **options)


def logs_in(broker, user, password, mechanism="SCRAM-SHA-512"):
    properties = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }
    settings = Settings.from_properties(properties)
    try:
        Connection(settings, *settings.bootstrap[0]).close()
    except ClientError:
        return False
    return True


def test_a_password_is_made_and_shown_once(broker, users, unique):
    name = unique("user")
    added = users("add", name)
    password = re.search(r"^Password: (\w{24})$", added.text, re.MULTILINE)[1]
    assert logs_in(broker, name, password)
    assert logs_in(broker, name, password, "SCRAM-SHA-256")
    assert password not in users("list").text
    assert not logs_in(broker, name, "wrong")


def test_a_password_that_is_given_is_not_shown(broker, users, unique, tmp_path):
    name, other = unique("user"), unique("user")
    assert "s3cret word" not in users("add", name, stdin=b"s3cret word\n").text
    assert logs_in(broker, name, "s3cret word")
    file = tmp_path / "password"
    file.write_text("from a file\n")
    users("add", other, "--password-file", file)
    assert logs_in(broker, other, "from a file")


def test_users_are_listed_changed_and_removed(broker, users, unique):
    name = unique("user")
    users("add", name, stdin=b"first\n")
    listed = users("list", "--json").json
    iterations = {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 8192}
    assert {"user": name, "iterations": iterations} in listed
    assert [name, "SCRAM-SHA-256,", "SCRAM-SHA-512"] in [line.split() for line in users("list").lines]
    users("password", name, stdin=b"second\n")
    assert (logs_in(broker, name, "first"), logs_in(broker, name, "second")) == (False, True)
    users("remove", name, "--yes")
    assert not logs_in(broker, name, "second")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("add", "admin"), "User 'admin' exists already: `ottla users password admin` gives a new password."),
        (("password", "nobody"), "User 'nobody' does not exist: `ottla users add nobody` adds it."),
        (("remove", "nobody", "--yes"), "User 'nobody' does not exist."),
        (("remove", "admin"), "This needs a confirmation. Pass --yes to skip it."),
        (("add", ""), "A user needs a name."),
        (
            ("add", "eve", "--password-file", "/no/such"),
            "/no/such cannot be read: No such file or directory.",
        ),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_what_cannot_be_done_is_one_sentence(users, args, sentence):
    failed = users(*args, check=False)
    assert (failed.code, failed.err) == (1, f"Error: {sentence}\n")


def test_the_file_of_the_client_says_where_the_brokers_are(users):
    assert "admin" in users("list").text
