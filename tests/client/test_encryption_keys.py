"""Promise: keys come only from their key store, and an error is one sentence that contains no key."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ottla.client.encryption import check_private
from ottla.encryption import (
    BadValue,
    Decryptor,
    EncryptionError,
    Encryptor,
    KeyFile,
    KeysUnavailable,
    VaultTransit,
    add_key_version,
    make_key_file,
    open_keys,
    rewrap,
)
from tests.client.vault_server import TOKEN, Key, VaultServer

# -- key files ----------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    make_key_file(tmp_path / "keys.json")
    return tmp_path / "keys.json"


def keys_in(file: Path) -> list[str]:
    return [key for versions in json.loads(file.read_text())["keys"].values() for key in versions.values()]


def test_a_key_file_is_its_owners_alone(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600
    record = Encryptor(KeyFile(file)).encrypt("t", b"x")
    assert Decryptor(KeyFile(file)).decrypt("t", *record).value == b"x"


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o602, 0o601])
def test_one_that_others_may_open_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(KeysUnavailable, match=f"open to others \\(mode {mode:04o}\\).*chmod 600"):
        KeyFile(file).new_data_key()


def test_one_that_belongs_to_somebody_else_is_refused(file: Path) -> None:
    found = file.stat()
    others = os.stat_result((found.st_mode, 0, 0, 1, os.geteuid() + 1, *found[5:]))
    with pytest.raises(KeysUnavailable, match="belongs to somebody else"):
        check_private(file, others)


def test_its_group_may_read_it(file: Path) -> None:
    """Kubernetes mounts secrets for a group."""
    file.chmod(0o640)
    assert KeyFile(file).new_data_key()


def test_one_that_exists_is_not_replaced(file: Path) -> None:
    before = file.read_text()
    with pytest.raises(KeysUnavailable, match="exists already"):
        make_key_file(file)
    assert file.read_text() == before


def test_older_versions_still_decrypt_until_they_are_taken_out(file: Path) -> None:
    encryptor = Encryptor(KeyFile(file), records_per_key=1)
    sealed, headers = encryptor.encrypt("t", b"old")
    file.chmod(0o640)
    assert add_key_version(file) == ("default", 2)
    assert file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(file.parent) == ["keys.json"]
    new = encryptor.encrypt("t", b"new")
    assert Decryptor(KeyFile(file)).decrypt("t", sealed, headers).value == b"old"
    again = rewrap(KeyFile(file), headers)
    document = json.loads(file.read_text())
    del document["keys"]["default"]["1"]
    file.write_text(json.dumps(document))
    with pytest.raises(BadValue, match="no version 1 of the key 'default'"):
        Decryptor(KeyFile(file)).decrypt("t", sealed, headers)
    assert Decryptor(KeyFile(file)).decrypt("t", *new).value == b"new"
    assert Decryptor(KeyFile(file)).decrypt("t", sealed, again).value == b"old"


def test_several_keys_have_names(file: Path) -> None:
    assert add_key_version(file, "orders") == ("orders", 1)
    record = Encryptor(open_keys(f"file:{file}#orders")).encrypt("t", b"x")
    assert Decryptor(open_keys(str(file))).decrypt("t", *record).value == b"x"
    with pytest.raises(BadValue, match="'orders', which is not one of those to be used"):
        Decryptor(open_keys(f"file:{file}#default")).decrypt("t", *record)
    with pytest.raises(KeysUnavailable, match="no key 'none'"):
        Encryptor(open_keys(f"file:{file}#none")).encrypt("t", b"x")


def test_the_key_of_another_file_does_not_do(file: Path, tmp_path: Path) -> None:
    make_key_file(tmp_path / "other.json")
    record = Encryptor(KeyFile(file)).encrypt("t", b"x")
    with pytest.raises(BadValue, match="not wrapped by the key 'default'"):
        Decryptor(KeyFile(tmp_path / "other.json")).decrypt("t", *record)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"keys": []}',
        '{"keys": {}}',
        '{"keys": {"a": "b"}}',
        '{"keys": {"a": {}}}',
        '{"keys": {"a": {"1": "c2hvcnQ="}}}',
        '{"keys": {"a": {"x": "c2hvcnQ="}}}',
        '{"keys": {"a b": {"1": ""}}}',
        '{"keys": {"a": {"0": "' + "A" * 43 + '="}}}',
        '{"keys": {"a": {"1": 5}}}',
    ],
)
def test_a_file_that_is_none_is_refused_without_showing_it(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(KeysUnavailable) as raised:
        KeyFile(file).new_data_key()
    assert str(file) in str(raised.value)
    assert "c2hvcnQ" not in str(raised.value)
    context = raised.value.__context__
    assert context is None or not hasattr(context, "doc"), "the parser's error has the whole file in it"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeysUnavailable, match=r"Cannot read the key file .*/none.json: No such file"):
        KeyFile(tmp_path / "none.json").new_data_key()


def test_keys_are_in_no_repr(file: Path) -> None:
    keys = KeyFile(file)
    encryptor = Encryptor(keys)
    encryptor.encrypt("t", b"x")
    shown = repr((keys, encryptor, keys.new_data_key()))
    assert not any(key in shown for key in keys_in(file))


# -- Vault --------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("VAULT_TOKEN", "VAULT_CACERT", "VAULT_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("ottla.client.encryption._FIRST_PAUSE", 0.001)


@pytest.fixture
def vault() -> Iterator[VaultServer]:
    with VaultServer() as server:
        yield server


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAULT_TOKEN", TOKEN)


@pytest.mark.usefixtures("token")
def test_vault_wraps_and_unwraps_data_keys(vault: VaultServer) -> None:
    encryptor = Encryptor(open_keys(vault.reference))
    records = [encryptor.encrypt("t", b"%d" % n) for n in range(10)]
    decryptor = Decryptor(open_keys(vault.reference))
    assert [decryptor.decrypt("t", *record).value for record in records] == [b"%d" % n for n in range(10)]
    assert [path for path, _ in vault.requests] == [
        "/v1/transit/datakey/plaintext/orders",
        "/v1/transit/decrypt/orders",
    ]


@pytest.mark.usefixtures("token")
def test_keys_of_vault_rotate(vault: VaultServer) -> None:
    keys = open_keys(vault.reference)
    sealed, headers = Encryptor(keys).encrypt("t", b"x")
    vault.keys["orders"].rotate()
    assert Decryptor(keys).decrypt("t", sealed, headers).value == b"x"
    again = rewrap(keys, headers)
    vault.keys["orders"].min_decryption_version = 2
    with pytest.raises(BadValue, match="too old"):
        Decryptor(keys).decrypt("t", sealed, headers)
    assert Decryptor(keys).decrypt("t", sealed, again).value == b"x"


@pytest.mark.usefixtures("token")
def test_a_record_does_not_choose_the_key(vault: VaultServer) -> None:
    vault.keys["mine"] = Key()
    forged = Encryptor(open_keys(vault.reference.replace("#orders", "#mine"))).encrypt("t", b"x")
    with pytest.raises(BadValue, match="'mine', which is not one of those to be used"):
        Decryptor(open_keys(vault.reference)).decrypt("t", *forged)
    both = open_keys(vault.reference + ",mine")
    assert Decryptor(both).decrypt("t", *forged).value == b"x"


@pytest.mark.usefixtures("token")
def test_what_vault_does_not_know_is_a_bad_value(vault: VaultServer) -> None:
    record = Encryptor(open_keys(vault.reference)).encrypt("t", b"x")
    vault.keys["orders"] = Key()
    with pytest.raises(BadValue, match="message authentication failed"):
        Decryptor(open_keys(vault.reference)).decrypt("t", *record)
    del vault.keys["orders"]
    with pytest.raises(BadValue, match="encryption key not found"):
        Decryptor(open_keys(vault.reference)).decrypt("t", *record)
    with pytest.raises(KeysUnavailable, match="makes no data key with the key 'orders': HTTP 404"):
        Encryptor(open_keys(vault.reference)).encrypt("t", b"x")


def test_the_token_comes_from_a_file_or_from_the_environment(
    vault: VaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeysUnavailable, match="no token for Vault: set VAULT_TOKEN"):
        open_keys(vault.reference).new_data_key()
    home = tmp_path / "home"
    home.mkdir()
    (home / ".vault-token").write_text(TOKEN)
    assert open_keys(vault.reference).new_data_key()
    monkeypatch.setenv("VAULT_TOKEN", "wrong")
    with pytest.raises(
        KeysUnavailable, match="does not let this token use the key 'orders': permission denied"
    ) as no:
        open_keys(vault.reference).new_data_key()
    assert "wrong" not in str(no.value)
    named = vault.reference.replace("#", f"?token-file={tmp_path}/token#")
    with pytest.raises(KeysUnavailable, match=r"Cannot read Vault's token in .*token: No such file"):
        open_keys(named).new_data_key()
    keys = open_keys(named)
    (tmp_path / "token").write_text(TOKEN + "\n")
    assert keys.new_data_key()
    vault.token = "renewed"
    (tmp_path / "token").write_text("renewed")
    assert keys.new_data_key(), "it is read again each time"


def test_a_token_with_more_than_a_line_is_refused(
    vault: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_TOKEN", "a\r\nX-Other: b")
    with pytest.raises(KeysUnavailable, match="not a line of ASCII"):
        open_keys(vault.reference).new_data_key()
    assert not vault.requests


@pytest.mark.usefixtures("token")
def test_a_vault_that_is_busy_is_asked_again(vault: VaultServer) -> None:
    vault.failures = [503, 429, 500]
    assert open_keys(vault.reference).new_data_key()
    assert len(vault.requests) == 4


@pytest.mark.usefixtures("token")
def test_and_not_for_ever(vault: VaultServer) -> None:
    vault.failures = [503] * 10
    with pytest.raises(KeysUnavailable) as raised:
        open_keys(vault.reference).new_data_key()
    expected = f"Vault at http://localhost:{vault.port} cannot be used: Vault is sealed (HTTP 503)."
    assert str(raised.value) == expected
    assert len(vault.requests) == 4


@pytest.mark.usefixtures("token")
def test_where_nobody_answers_that_is_said() -> None:
    port = 1
    with pytest.raises(KeysUnavailable) as raised:
        open_keys(f"vault:http://127.0.0.1:{port}#orders").new_data_key()
    assert str(raised.value) == f"Vault at http://127.0.0.1:{port} cannot be reached: Connection refused."


@pytest.mark.usefixtures("token")
def test_the_token_does_not_follow_a_redirection(vault: VaultServer) -> None:
    vault.failures = [307]
    with pytest.raises(KeysUnavailable, match="HTTP 307"):
        open_keys(vault.reference).new_data_key()


@pytest.mark.usefixtures("token")
def test_an_answer_that_is_none_is_refused(vault: VaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for answer in ({}, {"plaintext": 5}, {"plaintext": "eA==", "ciphertext": "vault:v1:x"}):
        monkeypatch.setattr(vault, "answer", lambda _path, _body, answer=answer: answer)
        with pytest.raises(KeysUnavailable, match=f"Vault at http://localhost:{vault.port}"):
            open_keys(vault.reference).new_data_key()


@pytest.mark.usefixtures("token")
def test_namespaces_and_mounts(vault: VaultServer) -> None:
    with VaultServer(mount="team/keys") as server:
        keys = open_keys(server.reference.replace("#", "?namespace=team#"))
        assert keys.new_data_key()
        [(path, headers)] = server.requests
        assert path == "/v1/team/keys/datakey/plaintext/orders"
        assert headers["X-Vault-Namespace"] == "team"


@pytest.mark.usefixtures("token")
def test_its_certificate_is_checked(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with VaultServer(context) as server:
        with pytest.raises(KeysUnavailable, match="has a certificate that is not trusted"):
            open_keys(server.reference).new_data_key()
        assert not server.requests
        trusting = server.reference.replace("#", f"?ca-file={certificate}#")
        assert open_keys(trusting).new_data_key()
        with pytest.raises(KeysUnavailable, match="certificates in /none cannot be read"):
            open_keys(server.reference.replace("#", "?ca-file=/none#")).new_data_key()


def self_signed(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "vault.pem"
    pem = serialization.Encoding.PEM
    file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(pem)
    )
    return file


# -- references ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("", "Which key file"),
        ("file:", "Which key file"),
        ("aws:alias", "not in 'aws:'"),
        ("keys.json#a b", "'a b' is not the name of a key"),
        ("vault:https://host:8200", "Which key of Vault"),
        ("vault:#orders", "Where is Vault"),
        ("vault:https://host:x#orders", "Where is Vault"),
        ("vault:http://vault.example:8200#orders", "https only"),
        ("vault:https://me:hvs.secret@host#orders", "A token does not belong here"),
        ("vault:https://host?token=hvs.secret#orders", "A token does not belong here"),
        ("vault:https://host?skip-verify=1#orders", "no parameter 'skip-verify'"),
        ("vault:https://host/../sys#orders", "is not where a transit engine is mounted"),
    ],
)
def test_a_bad_reference_is_a_sentence(reference: str, sentence: str) -> None:
    with pytest.raises(EncryptionError, match=sentence) as raised:
        open_keys(reference)
    assert "hvs.secret" not in str(raised.value)


def test_references(tmp_path: Path) -> None:
    assert repr(open_keys("keys.json")) == repr(open_keys("file:keys.json")) == "KeyFile('keys.json')"
    assert repr(open_keys("file:///etc/keys.json#a")) == "KeyFile('/etc/keys.json')"
    keys = open_keys("vault:https://vault.example#orders,old")
    assert isinstance(keys, VaultTransit)
    assert repr(keys) == "VaultTransit('https://vault.example:8200')"
