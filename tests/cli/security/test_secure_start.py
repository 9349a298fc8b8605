"""`ottla start --secure`: one command, and no stranger gets in."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from ottla.cli.properties import parse_properties
from ottla.security.certificates import make_authority

FILES = ["ca.key", "ca.pem", "client-java.properties", "client.properties", "server.pem"]


@contextmanager
def started(ottla, data, *args):
    """The running command, with its output so far."""
    process = ottla.start("start", "--secure", "--listen", "127.0.0.1:0", "--data", data, *args)
    said = []
    try:
        for line in process.stdout:
            said.append(line.decode())
            if "Ctrl-C stops" in said[-1]:
                break
        else:
            raise AssertionError(process.communicate(timeout=20)[1].decode())
        yield "".join(said)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def properties(data, name="client.properties"):
    return parse_properties((data / name).read_text())


def passwords(said):
    return re.findall(r"admin, password (\w{24}) ", said)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("secure") / "data"


@pytest.fixture(scope="module")
def welcome(data, alone):
    """The output of a first start, which keeps running during these tests."""
    with started(alone, data) as said:
        yield said


@pytest.fixture(scope="module")
def admin(welcome, data, new_ottla):
    return new_ottla(
        OTTLA_COMMAND_CONFIG=str(data / "client.properties"), OTTLA_BOOTSTRAP_SERVER="localhost:9092"
    )


def test_the_password_is_shown_and_in_files_of_the_owner_alone(welcome, data):
    [password] = passwords(welcome)
    assert properties(data)["sasl.password"] == password
    assert f'password="{password}"' in properties(data, "client-java.properties")["sasl.jaas.config"]
    assert f"export OTTLA_COMMAND_CONFIG={data / 'client.properties'}" in welcome
    assert data.stat().st_mode & 0o777 == 0o700
    assert [name for name in FILES if (data / name).stat().st_mode & 0o777 != 0o600] == []


def test_the_file_is_what_a_client_needs(welcome, data):
    listed = AdminClient(properties(data)).list_topics(timeout=20)
    assert len(listed.brokers) == 1


def test_everything_goes_on_from_there_with_our_commands(admin, welcome):
    admin("produce", "greetings", stdin=b"hello\n")
    assert admin("consume", "greetings", "--from-beginning", "--until-end").text == "hello\n"
    admin("users", "add", "ann", stdin=b"pencil\n")
    assert "ann" in admin("users", "list").text


def test_a_new_user_may_do_nothing_until_an_acl_says_so(admin, welcome, data, tmp_path):
    admin("topics", "create", "plans")
    admin("users", "add", "bob", stdin=b"pencil\n")
    bobs = {**properties(data), "sasl.username": "bob", "sasl.password": "pencil"}
    file = tmp_path / "bob.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in bobs.items()))
    assert "plans" not in admin("topics", "list", "--command-config", file).text
    failed = admin("produce", "plans", "--command-config", file, stdin=b"x\n", check=False)
    assert failed.code == 1
    admin("acls", "add", "bob", "--write", "plans")
    admin("produce", "plans", "--command-config", file, stdin=b"x\n")


def test_nothing_is_served_without_tls_or_without_a_login(welcome, data):
    host, _, port = properties(data)["bootstrap.servers"].rpartition(":")
    api_versions = b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\0\0"
    metadata = b"\0\0\0\x0e\0\x03\0\x01\0\0\0\1\0\0\xff\xff\xff\xff"
    with socket.create_connection((host, int(port)), 20) as plain:
        plain.sendall(api_versions)
        with suppress(ConnectionResetError):
            assert b"\0\x12" not in plain.recv(100)  # at most a TLS alert
    context = ssl.create_default_context(cafile=data / "ca.pem")
    with (
        socket.create_connection((host, int(port)), 20) as plain,
        context.wrap_socket(plain, server_hostname=host) as encrypted,
    ):
        encrypted.sendall(metadata)
        assert encrypted.recv(100) == b""


def test_a_later_start_uses_all_of_it_again_and_shows_no_password(tmp_path, alone):
    data = tmp_path / "data"
    with started(alone, data) as first:
        before = {name: (data / name).read_bytes() for name in FILES}
        assert passwords(first)
    with started(alone, data) as second:
        assert passwords(second) == []
        assert properties(data)["sasl.password"] not in second
        after = {name: (data / name).read_bytes() for name in FILES}
        changed = [name for name in FILES if after[name] != before[name]]
        assert changed in ([], ["client-java.properties", "client.properties"])  # the port was chosen freely
        assert AdminClient(properties(data)).list_topics(timeout=20).brokers
    refused = alone("start", "--data", data, "--listen", "127.0.0.1:0", check=False)
    assert (refused.code, len(refused.err.splitlines())) == (1, 1)
    assert "start it with --secure again, or with --insecure" in refused.err


def test_an_admin_who_has_lost_the_password_gets_another(tmp_path, alone):
    data = tmp_path / "data"
    with started(alone, data) as said:
        before = passwords(said)
    (data / "client.properties").unlink()
    with started(alone, data) as said:
        [after] = passwords(said)
        assert [after] != before
        assert properties(data)["sasl.password"] == after
        assert AdminClient(properties(data)).list_topics(timeout=20).brokers


def test_a_certificate_of_ones_own_is_used(tmp_path, alone):
    authority = make_authority("Somebody's CA")
    issued = authority.issue("somebody", ["127.0.0.1"])
    for name, content in (
        ("c.pem", issued.certificate_pem),
        ("c.key", issued.key_pem),
        ("ca", authority.certificate_pem),
    ):
        (tmp_path / name).write_bytes(content)
    data = tmp_path / "data"
    options = ("--certificate", tmp_path / "c.pem", "--key", tmp_path / "c.key", "--ca", tmp_path / "ca")
    with started(alone, data, *options):
        assert AdminClient(properties(data)).list_topics(timeout=20).brokers
        host, _, port = properties(data)["bootstrap.servers"].rpartition(":")
        found = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((host, int(port))))
        assert found == ssl.PEM_cert_to_DER_cert(
            issued.certificate_pem.decode().partition("-----END")[0] + "-----END CERTIFICATE-----\n"
        )
    assert not (data / "ca.key").exists()
    with started(alone, data):
        assert AdminClient(properties(data)).list_topics(timeout=20).brokers


def test_what_is_wrong_with_a_certificate_is_one_sentence(tmp_path, alone):
    authority = make_authority("CA")
    one, two, old = (
        authority.issue(name, ["127.0.0.1"], days=days) for name, days in (("1", 9), ("2", 9), ("3", -2))
    )
    files = {
        "one.pem": one.certificate_pem,
        "two.key": two.key_pem,
        "old.pem": old.key_pem + old.certificate_pem,
        "empty.pem": b"nothing",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)

    def refused(certificate, key=None):
        words = ["--certificate", tmp_path / certificate, *(["--key", tmp_path / key] if key else [])]
        failed = alone("start", "--secure", "--data", tmp_path / "data", *words, check=False)
        assert (failed.code, len(failed.err.splitlines())) == (1, 1)
        return failed.err

    assert "The key in " in refused("one.pem", "two.key")
    assert "does not belong to the certificate" in refused("one.pem", "two.key")
    assert "There is no private key in" in refused("one.pem")
    assert "expired on" in refused("old.pem")
    assert "There is no certificate in" in refused("empty.pem")
    assert "No such file or directory" in refused("missing.pem")
    for words in (["--secure", "--key", tmp_path / "two.key"], ["--ca", tmp_path / "one.pem"]):
        failed = alone("start", "--data", tmp_path / "data", *words, check=False)
        assert failed.code == 2
        assert "belong to" in failed.err


def test_a_renewed_certificate_is_served_without_a_restart(welcome, data, alone):
    host, _, port = properties(data)["bootstrap.servers"].rpartition(":")
    before = ssl.get_server_certificate((host, int(port)))
    alone("certs", "renew", "--data", data)
    deadline = time.monotonic() + 60
    while (after := ssl.get_server_certificate((host, int(port)))) == before:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert after.strip() in (data / "server.pem").read_text()
    assert AdminClient(properties(data)).list_topics(timeout=20).brokers


def test_no_secret_is_on_a_command_line_or_in_a_log(welcome, data):
    [password] = passwords(welcome)
    shown = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert password not in shown
    others = [path for path in data.rglob("*") if path.is_file() and not path.name.startswith("client")]
    assert [path for path in others if password.encode() in path.read_bytes()] == []


def served_by_zookeeper(address):
    """Return True if ZooKeeper serves a client without key and password."""
    client = KazooClient(address, timeout=3)
    try:
        client.start(5)
        client.get_children("/")
    except KazooException:
        return False
    except client.handler.timeout_exception:
        return False
    finally:
        client.stop()
        client.close()
    return True


@pytest.mark.cluster
@pytest.mark.slow
def test_a_whole_cluster_is_secure(tmp_path, alone, new_ottla):
    data = tmp_path / "data"
    ottla = new_ottla(
        OTTLA_COMMAND_CONFIG=str(data / "client.properties"), OTTLA_BOOTSTRAP_SERVER="localhost:9092"
    )
    for lives in range(2):
        with started(alone, data, "--brokers", 3) as said:
            assert bool(passwords(said)) == (lives == 0)
            assert len(AdminClient(properties(data)).list_topics(timeout=30).brokers) == 3
            assert open_to_others(data) == []
            if not lives:
                ottla("topics", "create", "orders", "--partitions", 3, "--replication-factor", 3)
            ottla("produce", "orders", "--acks", "all", stdin=b"one\ntwo\n")
            ottla("users", "list")
            assert not served_by_zookeeper(re.search(r"ZooKeeper +(\S+)", said)[1])
            [described] = ottla("topics", "describe", "orders", "--json").json
            assert [len(each["isr"]) for each in described["partitions"]] == [3, 3, 3]
        assert not (data / "initial-users.json").exists()
    logs = "".join(Path(path).read_text() for path in data.glob("broker-*.log"))
    secret = re.search(r'password="(\w+)"', (data / "brokers.properties").read_text())[1]
    assert secret not in logs


# -- other users of the machine --


def open_to_others(directory):
    """Return the files and folders that another user may read, write or enter."""
    return sorted(
        str(path.relative_to(directory.parent))
        for path in (directory, *directory.rglob("*"))
        if not path.is_symlink() and path.stat().st_mode & 0o077
    )


def as_nobody(*command):
    """Run a command as an unprivileged user. The parent directories are open, so only the data directory stops it."""
    return subprocess.run(
        command, user="nobody", group="nogroup", extra_groups=[], capture_output=True, text=True, cwd="/"
    )


@pytest.fixture
def reachable():
    """A directory that other users can reach."""
    directory = Path(tempfile.mkdtemp(prefix="ottla-reachable-", dir="/tmp"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="It takes root to become another user.")
def test_another_user_reads_nothing_of_a_secured_broker(alone, new_ottla, reachable):
    data = reachable / "data"
    with started(alone, data, "--console", "127.0.0.1:0"):
        config, servers = str(data / "client.properties"), properties(data)["bootstrap.servers"]
        admin = new_ottla(OTTLA_COMMAND_CONFIG=config, OTTLA_BOOTSTRAP_SERVER=servers)
        admin("topics", "create", "secrets")
        admin("produce", "secrets", stdin=b"s3cret content\n")
        admin("consume", "secrets", "--from-beginning", "--until-end", "--group", "readers")
        assert open_to_others(data) == []
        assert any(b"s3cret" in path.read_bytes() for path in data.rglob("*.log"))
        assert as_nobody("ls", str(reachable)).returncode == 0
        assert "Permission denied" in as_nobody("ls", str(data)).stderr
        assert "Permission denied" in as_nobody("cat", str(data / "secrets-0" / f"{0:020}.log")).stderr
    assert open_to_others(data) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="It takes root to become another user.")
def test_data_that_others_could_read_is_closed(alone, reachable):
    """Starting securely closes an open broker's directory and all files in it."""
    data = reachable / "data"
    process = alone.start("start", "--listen", "127.0.0.1:0", "--data", data, umask=0o022)
    assert any(b"Ctrl-C stops" in line for line in process.stdout)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    elsewhere = reachable / "elsewhere"
    elsewhere.write_text("of somebody else")
    elsewhere.chmod(0o644)
    (data / "link").symlink_to(elsewhere)
    assert open_to_others(data)
    assert as_nobody("ls", str(data)).returncode == 0
    with started(alone, data):
        assert open_to_others(data) == []
        assert "Permission denied" in as_nobody("ls", str(data)).stderr
    assert elsewhere.stat().st_mode & 0o777 == 0o644


def test_a_directory_with_files_of_others_is_refused(alone, tmp_path):
    """Removing everybody's access to a home directory or to /tmp would do more harm than good."""
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    shared.chmod(0o755)
    (shared / "notes.txt").write_text("of somebody else")
    refused = alone("start", "--secure", "--listen", "127.0.0.1:0", "--data", shared, check=False)
    assert refused.err == (
        f"Error: Other users can open {shared}, and it has files that are not the broker's. Name a directory of its "
        f"own with --data, or run `chmod 700 {shared}`.\n"
    )
    assert shared.stat().st_mode & 0o777 == 0o755
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    assert "not the broker's" in alone("start", "--secure", "--data", sticky, check=False).err
