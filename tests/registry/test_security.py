"""Access to the registry and its rights, and the registry's access to a secured cluster."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path

import httpx
import pytest

from ottla.registry.security import BadAcls, Operation, read_acls
from ottla.registry.settings import BadSettings, RegistrySettings
from ottla.security.certificates import Authority, make_authority
from ottla.testing import Broker, acl
from tests.registry.conftest import Api, in_background, record

JAAS = """SchemaRegistry-Props {
  org.eclipse.jetty.jaas.spi.PropertyFileLoginModule required
  file="%s"
  debug="false";
};
"""


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


# The cluster


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT", "SSL"])
def test_a_secured_cluster(protocol):
    with Broker(security=protocol, registry=True) as broker:
        api = Api(broker.schema_registry_url)
        assert api.id_of("a", '"int"') == 1
        assert api.get("/subjects") == ["a"]


def test_a_user_with_few_rights_is_enough():
    """Confluent's registry needs no rights on transactional ids. Ours works without them, with a warning."""
    rights = [
        acl("registry", "read", topic="_schemas"),
        acl("registry", "write", topic="_schemas"),
        acl("registry", "create", topic="_schemas"),
        acl("registry", "describe", topic="_schemas"),
        acl("registry", "describe_configs", topic="_schemas"),
        acl("registry", "read", group="schema-registry"),
    ]
    with Broker(security="SASL_PLAINTEXT", users={"registry": "secret"}, acls=rights) as broker:
        client = {f"kafkastore.{name}": value for name, value in broker.client_properties("registry").items()}
        settings = RegistrySettings.from_properties({"listeners": "http://127.0.0.1:0", **client})
        with in_background(settings) as registry:
            assert Api(registry.url).id_of("a", '"int"') == 1


# Passwords


@pytest.fixture
def passwords(tmp_path: Path) -> Path:
    path = tmp_path / "passwords"
    path.write_text("ann: her-password,developer\nbob: his-password,guest\nroot: root-password,admin\n")
    return path


def test_basic_authentication(passwords):
    settings = {
        "authentication.method": "BASIC",
        "authentication.roles": "developer,admin",
        "authentication.password.file": str(passwords),
    }
    with Broker(registry=settings) as broker:
        url = broker.schema_registry_url
        nobody = Api(url)("GET", "/subjects")
        assert (nobody.status, nobody.code) == (401, 40101)
        assert nobody.headers["WWW-Authenticate"] == 'Basic realm="SchemaRegistry-Props"'
        assert Api(url, **basic("ann", "wrong"))("GET", "/subjects").status == 401
        assert Api(url, **basic("bob", "his-password"))("GET", "/subjects").status == 403
        assert Api(url, **basic("ann", "her-password")).id_of("a", '"int"') == 1


def test_the_password_file_of_a_jaas_file(passwords, tmp_path, monkeypatch):
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(JAAS % passwords)
    monkeypatch.setenv("SCHEMA_REGISTRY_OPTS", f"-Xmx1g -Djava.security.auth.login.config={jaas}")
    with Broker(registry={"authentication.method": "BASIC", "authentication.roles": "**"}) as broker:
        url = broker.schema_registry_url
        assert Api(url)("GET", "/subjects").status == 401
        assert Api(url, **basic("ann", "her-password"))("GET", "/subjects").status == 200


# Rights


def test_rights_per_subject(passwords, tmp_path):
    acls = tmp_path / "acls"
    acls.write_text(
        "# a line each\n"
        "--principal ann --subject orders-* --operation SUBJECT_READ:SUBJECT_WRITE\n"
        "--principal bob --subject orders-value --operation SUBJECT_READ\n"
        "--principal * --operation GLOBAL_COMPATIBILITY_READ\n"
    )
    settings = {
        "authentication.method": "BASIC",
        "authentication.password.file": str(passwords),
        "confluent.schema.registry.acl.file": str(acls),
        "confluent.schema.registry.super.users": "User:root",
    }
    with Broker(registry=settings) as broker:
        url = broker.schema_registry_url
        ann, bob = Api(url, **basic("ann", "her-password")), Api(url, **basic("bob", "his-password"))
        root = Api(url, **basic("root", "root-password"))
        schema_id = ann.id_of("orders-value", '"int"')
        secret_id = root.id_of("secret-value", '"bytes"')
        assert bob.get("/subjects/orders-value/versions") == [1]
        refused = bob.register("orders-value", '"long"')
        assert (refused.status, refused.code) == (403, 40301)
        assert refused.message == "User is denied operation SUBJECT_WRITE on this Subject"
        assert ann.register("secret-value", '"long"').status == 403
        assert ann("GET", "/contexts/./subjects/secret-value/versions").status == 403
        assert ann("GET", "/subjects/:.:secret-value/versions").status == 403
        assert ann("DELETE", "/subjects/orders-value").status == 403
        assert ann("GET", "/subjects").status == 403
        assert root.get("/subjects") == ["orders-value", "secret-value"]
        assert bob.get("/config") == {"compatibilityLevel": "BACKWARD"}
        assert bob("PUT", "/config", {"compatibility": "NONE"}).status == 403
        # Reading a schema by id requires a right on one of its subjects.
        assert bob("GET", f"/schemas/ids/{schema_id}").status == 200
        assert bob("GET", f"/schemas/ids/{secret_id}").status == 403
        # An alias gives no access.
        root("PUT", "/config/orders-alias", {"alias": "secret-value"})
        assert ann("GET", "/subjects/orders-alias/versions").status == 403


def _reference(subject: str) -> list[dict[str, object]]:
    return [{"name": "Secret", "subject": subject, "version": 1}]


def test_references_open_no_subject_that_the_user_may_not_read(passwords, tmp_path):
    acls = tmp_path / "acls"
    acls.write_text(
        "--principal ann --subject orders-* --operation SUBJECT_READ:SUBJECT_WRITE\n"
        "--principal ann --subject shared --operation SUBJECT_READ\n"
        "--principal ann --operation GLOBAL_SUBJECTS_READ\n"
    )
    settings = {
        "authentication.method": "BASIC",
        "authentication.password.file": str(passwords),
        "confluent.schema.registry.acl.file": str(acls),
        "confluent.schema.registry.super.users": "User:root",
    }
    secret = record("Secret", "launch_code")
    refers = {"type": "record", "name": "Order", "fields": [{"name": "it", "type": "Secret"}]}
    with Broker(registry=settings) as broker:
        url = broker.schema_registry_url
        ann, root = Api(url, **basic("ann", "her-password")), Api(url, **basic("root", "root-password"))
        secret_id = root.id_of("secret", secret)
        root.id_of("orders-twin", '"int"')
        root.id_of("secret-twin", '"int"')
        # Registering, looking up and comparing would reveal the other schema.
        body = {"schema": json.dumps(refers), "references": _reference("secret")}
        for path in (
            "/subjects/orders-value/versions",
            "/subjects/orders-value",
            "/compatibility/subjects/orders-value/versions?verbose=true",
            "/compatibility/subjects/orders-value/versions/latest",
            "/contexts/./subjects/orders-value/versions",
        ):
            refused = ann("POST", path, body)
            assert (path, refused.status, refused.code) == (path, 403, 40301)
            # The response does not reveal whether the subject exists, either.
            unknown = ann("POST", path, {**body, "references": _reference("secret-unknown")})
            assert (unknown.status, unknown.message) == (403, refused.message)
        # The user may read root's schema, but not with the other schema resolved.
        order_id = root.id_of("orders-value", refers, references=_reference("secret"))
        root.id_of("shared", {**refers, "name": "Nested"}, references=_reference("secret"))
        guid = root.get("/subjects/orders-value/versions/1", confluent_client_version="8.0")["guid"]
        for path in (
            "/subjects/orders-value/versions/1",
            "/subjects/orders-value/versions/1/schema",
            f"/schemas/ids/{order_id}",
            f"/schemas/ids/{order_id}/schema",
            f"/schemas/guids/{guid}",
        ):
            assert "launch_code" not in str(ann.get(path))
            resolved = ann("GET", f"{path}?format=resolved")
            assert (path, resolved.status) == (path, 403)
            assert "launch_code" in str(root.get(f"{path}?format=resolved"))
        # Transitive references count, too.
        nested = {"type": "record", "name": "Outer", "fields": [{"name": "it", "type": "Nested"}]}
        through = [{"name": "Nested", "subject": "shared", "version": 1}]
        assert ann.register("orders-value", nested, references=through).status == 403
        # Lists contain only subjects that the user may read.
        assert ann.get("/subjects/orders-value/versions/1/referencedby") == []
        assert ann("GET", f"/schemas/ids/{secret_id}").status == 403
        twin = ann.get("/subjects/orders-twin/versions/1")["id"]
        assert ann.get(f"/schemas/ids/{twin}/subjects") == ["orders-twin"]
        assert ann.get(f"/schemas/ids/{twin}/versions") == [{"subject": "orders-twin", "version": 1}]
        assert {each["subject"] for each in ann.get("/schemas")} == {"orders-twin", "orders-value", "shared"}


def test_the_default_context_is_not_a_subject_of_the_user(passwords, tmp_path):
    acls = tmp_path / "acls"
    acls.write_text("--principal ann --subject orders-* --operation SUBJECT_COMPATIBILITY_WRITE\n")
    settings = {
        "authentication.method": "BASIC",
        "authentication.password.file": str(passwords),
        "confluent.schema.registry.acl.file": str(acls),
    }
    with Broker(registry=settings) as broker:
        ann = Api(broker.schema_registry_url, **basic("ann", "her-password"))
        assert ann("PUT", "/config/orders-value", {"compatibility": "NONE"}).status == 200
        assert ann("PUT", "/config/:.:", {"compatibility": "NONE"}).status == 403
        assert ann("PUT", "/contexts/./config", {"compatibility": "NONE"}).status == 403


def test_users_of_the_cluster_log_in_and_have_the_rights_of_their_topics():
    rights = [
        acl("writer", "write", topic="orders"),
        acl("reader", "read", topic="orders"),
        acl("viewer", "describe"),
        acl("ops", "alter"),
    ]
    users = {each: f"{each}-password" for each in ("writer", "reader", "viewer", "ops", "stranger")}
    with Broker(
        security="SASL_PLAINTEXT",
        users=users,
        acls=rights,
        registry={"authentication.method": "KAFKA"},
    ) as broker:
        url = broker.schema_registry_url
        api = {each: Api(url, **basic(each, password)) for each, password in users.items()}
        assert Api(url)("GET", "/subjects").status == 401
        assert Api(url, **basic("writer", "wrong"))("GET", "/subjects").status == 401
        assert Api(url, **basic("nobody", "writer-password"))("GET", "/subjects").status == 401

        schema_id = api["writer"].id_of("orders-value", '"int"')
        assert api["writer"].get("/subjects/orders-value/versions") == [1]
        assert api["writer"].register("payments-value", '"int"').status == 403
        assert api["writer"]("DELETE", "/subjects/orders-value").status == 403
        assert api["reader"].get(f"/schemas/ids/{schema_id}") == {"schemaType": "AVRO", "schema": '"int"'}
        assert api["reader"].register("orders-value", '"long"').status == 403
        assert api["stranger"]("GET", f"/schemas/ids/{schema_id}").status == 403
        assert api["stranger"]("GET", "/subjects").status == 403
        assert api["stranger"].get("/config") == {"compatibilityLevel": "BACKWARD"}
        assert api["viewer"].get("/subjects") == ["orders-value"]
        assert api["viewer"]("PUT", "/config", {"compatibility": "NONE"}).status == 403
        assert api["ops"]("PUT", "/config", {"compatibility": "NONE"}).status == 200
        assert api["ops"].id_of(":.other:payments-value", '"int"') > 0
        assert api["writer"]("GET", "/subjects/:.other:payments-value/versions").status == 403


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--principal ann", "needs a --principal and an --operation"),
        ("--principal ann --operation FLY", "there is no operation FLY to allow"),
        ("--principal ann --operation SCHEMA_READ", "there is no operation SCHEMA_READ to allow"),
        ("ann may read", "write --principal NAME"),
    ],
)
def test_acls_that_are_none(tmp_path, line, reason):
    path = tmp_path / "acls"
    path.write_text(f"\n{line}\n")
    with pytest.raises(BadAcls, match=reason) as refused:
        read_acls(path)
    assert "line 2" in str(refused.value)


def test_all_operations_at_once(tmp_path):
    path = tmp_path / "acls"
    path.write_text("--principal ann --subject a --operation *\n")
    assert Operation.SUBJECT_DELETE in read_acls(path)[0].operations


# HTTPS


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority()


def _https(authority: Authority, **more: str) -> dict[str, str]:
    issued = authority.issue("registry", ["127.0.0.1"])
    return {
        "listeners": "https://127.0.0.1:0",
        "ssl.keystore.certificate.chain": issued.certificate_pem.decode(),
        "ssl.keystore.key": issued.key_pem.decode(),
        "ssl.truststore.certificates": authority.certificate_pem.decode(),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def _client(authority: Authority, path: Path, name: str | None = None) -> httpx.Client:
    context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    if name is not None:
        issued = authority.issue(name, client=True)
        path.write_bytes(issued.key_pem + issued.certificate_pem)
        context.load_cert_chain(path)
    return httpx.Client(verify=context)


def test_https_and_certificates_of_clients(authority, tmp_path):
    acls = tmp_path / "acls"
    acls.write_text("--principal ann --subject a --operation SUBJECT_WRITE\n")
    settings = _https(
        authority,
        ssl_client_authentication="REQUIRED",
        ssl_principal_mapping_rules="RULE:^CN=(.*?)$/$1/,DEFAULT",
        confluent_schema_registry_acl_file=str(acls),
    )
    with Broker(registry=settings) as broker:
        url = broker.schema_registry_url
        assert url.startswith("https://")
        with _client(authority, tmp_path / "pem", "ann") as ann:
            answer = ann.post(f"{url}/subjects/a/versions", json={"schema": '"int"'})
            assert (answer.status_code, answer.json()) == (200, {"id": 1})
            assert ann.get(f"{url}/subjects").status_code == 403
        with _client(authority, tmp_path / "pem") as nobody, pytest.raises(httpx.TransportError):
            nobody.get(f"{url}/subjects")


def test_nodes_pass_writes_on_over_https(authority, tmp_path):
    with Broker(registry=_https(authority)) as broker:
        client = {"kafkastore.bootstrap.servers": broker.bootstrap_servers}
        settings = RegistrySettings.from_properties(
            {**_https(authority), **client, "leader.eligibility": "false"}
        )
        with in_background(settings) as follower, _client(authority, tmp_path / "pem") as anybody:
            answer = anybody.post(f"{follower.url}/subjects/a/versions", json={"schema": '"int"'})
            assert (answer.status_code, answer.json()) == (200, {"id": 1})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"listeners": "https://127.0.0.1:0"}, "needs ssl.keystore.location"),
        ({"listeners": "gopher://127.0.0.1:0"}, "listeners has 'gopher://127.0.0.1:0'"),
        ({"schema.compatibility.level": "SIDEWAYS"}, "schema.compatibility.level cannot be SIDEWAYS"),
        ({"authentication.method": "BEARER"}, "authentication.method BEARER is unknown"),
        ({"authentication.method": "BASIC"}, "needs a file with users"),
        ({"kafkastore.timeout.ms": "soon"}, "kafkastore.timeout.ms must be a number"),
        ({"inter.instance.protocol": "https"}, "no listener has it"),
        (
            {"ssl.client.authentication": "PERHAPS", "listeners": "https://127.0.0.1:0"},
            "ssl.client.authentication cannot be PERHAPS",
        ),
        ({"confluent.schema.registry.acl.file": "/nowhere"}, "cannot be read"),
    ],
)
def test_settings_that_make_no_sense_are_one_sentence(settings, sentence):
    given = {"kafkastore.bootstrap.servers": "127.0.0.1:1", "listeners": "http://127.0.0.1:0", **settings}
    with pytest.raises(BadSettings, match=sentence):
        in_background(RegistrySettings.from_properties(given)).start()
