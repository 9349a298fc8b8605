"""Data of a broker started with --secure: users, certificates and settings that only their owner can read."""

from __future__ import annotations

import datetime
import os
import socket
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.errors import JobError

if TYPE_CHECKING:
    from cryptography import x509

    from ottla.security.certificates import Authority, Issued

# Directories and files that only their owner can read: the data of a broker that was started with --secure.

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
#: One of these says that a directory is the broker's own.
_SIGNS = ("meta.properties", "ottla-metadata.db", "broker-0")


@contextmanager
def private_files() -> Iterator[None]:
    """Let this process and its children create files that only their owner can read: segments, logs, ZooKeeper's."""
    before = os.umask(_OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def close_to_others(directory: Path) -> bool:
    """Create a directory for its owner alone, or take access to it away from others. Return True if it was open.

    Raise JobError for a directory that is not the broker's own: others may need it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = directory.stat()
    except OSError as error:
        raise JobError(f"{directory} cannot be used for its data: {error.strerror}.") from None
    if not found.st_mode & _OTHERS:
        return False
    if found.st_mode & stat.S_ISVTX or not _is_ours(directory):
        raise JobError(
            f"Other users can open {directory}, and it has files that are not the broker's. Name a directory of its "
            f"own with --data, or run `chmod 700 {directory}`."
        )
    try:
        directory.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
        # Others may have opened folders in there, and a copy keeps the modes of its files.
        for path in _below(directory):
            mode = path.stat().st_mode
            if mode & _OTHERS:
                path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except OSError as error:
        raise JobError(
            f"Other users can open {directory}, and its mode cannot be changed ({error.strerror}): let its owner run "
            f"`chmod -R go= {directory}`."
        ) from None
    return True


def _is_ours(directory: Path) -> bool:
    names = {each.name for each in directory.iterdir()}
    return not names or not names.isdisjoint(_SIGNS)


def _below(directory: Path) -> Iterator[Path]:
    """Yield files and folders without following links."""
    for root, folders, files in os.walk(directory):
        for name in (*folders, *files):
            path = Path(root, name)
            with suppress(FileNotFoundError):
                if not path.is_symlink():
                    yield path


# The files of a secured data directory: an authority, a certificate of the broker, and files for its clients.
#
#     ca.pem, ca.key            the authority that `ottla start --secure` has made
#     server.pem                the broker's key and certificate, from that authority or from elsewhere
#     client.properties         how the admin logs in: with librdkafka's names, which Ottla's commands read too,
#     client-java.properties    and with Java's
#     brokers.properties        how the brokers of a cluster log in at each other
#     zookeeper.pem, …          keys and passwords of a cluster's ZooKeeper, which every start makes anew
#
# All of them are files and not in a folder, because Kafka takes every folder in there for a partition. Only their owner
# can read them, from the moment that they are there: `private_directory` closes the directory first.

ADMIN = "admin"
BROKERS = "broker"
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
REGISTRY_LOGIN = "confluent.basic.auth.user.info"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_ITERATIONS = 8192
# A certificate of ours is issued anew by a start this long before it expires.
_SOON = datetime.timedelta(days=30)
_EVERY_INTERFACE = ("", "0.0.0.0", "::")


class Certificate(NamedTuple):
    file: str
    subject: str
    issuer: str
    hosts: list[str]
    expires: str


class SecuredData:
    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.authority = self.directory / "ca.pem"
        self.authority_key = self.directory / "ca.key"
        self.server = self.directory / "server.pem"
        self.client = self.directory / "client.properties"
        self.java_client = self.directory / "client-java.properties"
        self.brokers = self.directory / "brokers.properties"

    @property
    def has_admin(self) -> bool:
        """It is written last: a first start that was cut short is repeated."""
        return self.client.exists()

    def admin_password(self) -> str:
        """Contents of the client file; empty if it was removed."""
        from ottla.cli.properties import parse_properties

        if not self.has_admin:
            return ""
        return parse_properties(_read(self.client).decode(errors="replace")).get("sasl.password", "")

    def is_new_to(self, brokers: int) -> bool:
        """Whether there is no store yet that could know its users: of one broker, or of a cluster of several."""
        store = self.brokers if brokers else self.directory / "ottla-metadata.db"
        return not store.exists()

    # -- certificates ----------------------------------------------------------------------------------

    def prepare(self, hosts: Iterable[str]) -> None:
        """Make the missing files, and issue the broker's certificate anew if it expires or lacks a host."""
        if not self.server.exists():
            if not self.authority_key.exists():
                self._make_authority()
            self.renew(hosts)
            return
        if not self.authority_key.exists():
            return  # it comes from elsewhere
        leaf = self._leaf()
        if not set(hosts) <= set(_hosts(leaf)) or leaf.not_valid_after_utc - _SOON < _now():
            self.renew([*_hosts(leaf), *hosts])

    def take(self, certificate: Path, key: Path | None, authority: Path | None) -> None:
        found = _read_pem(certificate, key)
        if authority is not None:
            _certificates(authority)
        if self.authority_key.exists():  # clients may have certificates of it
            for ours in (self.authority, self.authority_key):
                with suppress(FileNotFoundError):
                    ours.rename(ours.with_name(f"{ours.name}.old"))
        self.authority.unlink(missing_ok=True)
        if authority is not None:
            write_for_owner(self.authority, authority.read_bytes())
        write_for_owner(self.server, found)

    def renew(self, hosts: Iterable[str] = (), days: int = 825) -> None:
        """A new key and certificate for the broker. A running one reads it by itself."""
        authority = self._load_authority()
        names = list(dict.fromkeys(hosts)) or _hosts(self._leaf())
        # A running broker takes a certificate of the same name only.
        name = _common_name(self._leaf()) if self.server.exists() else socket.gethostname()
        issued = _issue(authority, name, names, days=days)
        write_for_owner(self.server, issued.key_pem + issued.certificate_pem)

    def make_zookeeper_keys(self) -> tuple[Path, Path]:
        """The keys of a cluster's ZooKeeper, and the authority that its brokers trust; whose key is not kept."""
        from ottla.security.certificates import make_authority

        keys, trusted = self.directory / "zookeeper.pem", self.directory / "zookeeper-ca.pem"
        authority = make_authority("Ottla CA of ZooKeeper")
        issued = authority.issue("zookeeper", ("localhost", "127.0.0.1"))
        write_for_owner(keys, issued.key_pem + issued.certificate_pem)
        write_for_owner(trusted, authority.certificate_pem)
        return keys, trusted

    def issue(self, name: str, hosts: Sequence[str], days: int, directory: Path) -> tuple[Path, Path]:
        """A certificate for a client: the files with the certificate and with its key."""
        if not name or "/" in name or name.startswith("."):
            raise JobError(
                f"'{name}' cannot be the name of a certificate, because its files are named after it."
            )
        authority = self._load_authority()
        files = directory / f"{name}.pem", directory / f"{name}.key"
        for file in files:
            if file.exists():
                raise JobError(f"{file} is there already: move it away, or use --out for another directory.")
        issued = _issue(authority, name, hosts, days=days, client=True)
        for file, data in zip(files, (issued.certificate_pem, issued.key_pem), strict=True):
            write_for_owner(file, data)
        return files

    def certificates(self) -> list[Certificate]:
        found = [path for path in (self.authority, self.server) if path.exists()]
        if not found:
            raise JobError(
                f"There are no certificates in {self.directory}: `ottla start --secure` makes them, and --data says "
                "where."
            )
        return [_described(path) for path in found]

    def _make_authority(self) -> None:
        from ottla.security.certificates import make_authority

        authority = make_authority(f"Ottla CA of {socket.gethostname()}"[:64])
        write_for_owner(self.authority_key, authority.key_pem)
        write_for_owner(self.authority, authority.certificate_pem)

    def _load_authority(self) -> Authority:
        from ottla.security.certificates import load_authority

        if not self.authority_key.exists() or not self.authority.exists():
            raise JobError(
                f"There is no authority in {self.directory} (ca.pem and ca.key): it was not made with "
                "`ottla start --secure`, or its certificate comes from elsewhere and is renewed there."
            )
        try:
            return load_authority(self.authority.read_bytes(), self.authority_key.read_bytes())
        except (ValueError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise JobError(
                f"The authority in {self.directory} cannot be used: {str(reason).rstrip('.')}."
            ) from None

    def _leaf(self) -> x509.Certificate:
        return _certificates(self.server)[0]

    # -- settings of brokers ---------------------------------------------------------------------------

    def settings(self, *, cluster: bool) -> dict[str, str]:
        among_brokers = {
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": MECHANISMS[0],
        }
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        return {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.server),
            **(trusted if self.authority.exists() else {}),
            **(among_brokers if cluster else {}),
            "authorizer.class.name": AUTHORIZER,
            "super.users": f"User:{ADMIN};User:{BROKERS}" if cluster else f"User:{ADMIN}",
            "allow.everyone.if.no.acl.found": "false",
        }

    def write_brokers(self, password: str) -> None:
        jaas = f"listener.name.sasl_ssl.{MECHANISMS[0].lower()}.sasl.jaas.config={_jaas(BROKERS, password)}\n"
        write_for_owner(self.brokers, jaas.encode())

    def write_registry_login(self, login: str) -> None:
        """How brokers of a cluster log in to the registry beside them: `user:password`.

        It is in a file, because everybody can see the command lines of the brokers.
        """
        lines = _read(self.brokers).decode().splitlines()
        kept = [line for line in lines if not line.startswith(f"{REGISTRY_LOGIN}=")]
        lines = [*kept, f"{REGISTRY_LOGIN}={login}"]
        write_for_owner(self.brokers, "".join(f"{line}\n" for line in lines).encode())

    # -- clients ---------------------------------------------------------------------------------------

    def write_clients(self, servers: str, password: str) -> None:
        common = {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISMS[0],
        }
        java = {**common, "sasl.jaas.config": _jaas(ADMIN, password)}
        other = {**common, "sasl.username": ADMIN, "sasl.password": password}
        if self.authority.exists():
            java |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
            other |= {"ssl.ca.location": str(self.authority)}
        write_for_owner(self.java_client, _properties(java))
        write_for_owner(self.client, _properties(other))

    def move_clients(self, servers: str) -> None:
        """Update only the broker addresses: users may have edited the rest of the file."""
        for file in (self.java_client, self.client):
            with suppress(OSError):
                lines = file.read_text(encoding="utf-8").splitlines()
                moved = [
                    f"bootstrap.servers={servers}" if line.startswith("bootstrap.servers=") else line
                    for line in lines
                ]
                if moved != lines:
                    write_for_owner(file, "".join(f"{line}\n" for line in moved).encode())


def credentials(password: str) -> dict[str, str]:
    from ottla.security.sasl.scram import format_credential, new_credential

    return {each: format_credential(new_credential(each, password, _ITERATIONS)) for each in MECHANISMS}


def hosts_of(addresses: Iterable[str]) -> list[str]:
    named = [address.rpartition(":")[0].strip("[]") for address in addresses]
    own = [host for host in named if host not in _EVERY_INTERFACE]
    return list(dict.fromkeys([*own, "localhost", socket.gethostname(), "127.0.0.1", "::1"]))


def advertised_at(listeners: str) -> list[str]:
    """HOST:PORT of `advertised.listeners`, as far as clients are let in there."""
    endpoints = (each.strip().partition("://") for each in listeners.split(","))
    return [address for name, _, address in endpoints if name.upper() == "SASL_SSL" and address]


def write_for_owner(path: Path, data: bytes) -> None:
    """Write a file atomically. Nobody but its owner can read it at any time."""
    try:
        # Files of tempfile are readable by their owner only.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise JobError(f"{path} cannot be written: {error.strerror}.") from None


def _properties(values: Mapping[str, str]) -> bytes:
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()


def _jaas(user: str, password: str) -> str:
    return f'{_LOGIN_MODULE} required username="{user}" password="{password}";'


def _issue(
    authority: Authority, name: str, hosts: Sequence[str], *, days: int, client: bool = False
) -> Issued:
    for host in hosts:
        if not host.isascii() or not host or any(each.isspace() for each in host):
            raise JobError(f"'{host}' cannot be the name of a host in a certificate.")
    try:
        return authority.issue(name, hosts, days=days, client=client)
    except ValueError:
        raise JobError(
            f"'{name}' cannot be the name in a certificate: it has at most 64 characters."
        ) from None


# -- reading certificates -------------------------------------------------------------------------------


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise JobError(f"{path} cannot be read: {error.strerror}.") from None


def _certificates(path: Path) -> list[x509.Certificate]:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(_read(path))
    except ValueError:
        raise JobError(f"There is no certificate in {path} that can be read as PEM.") from None


def _read_pem(certificate: Path, key: Path | None) -> bytes:
    from cryptography.hazmat.primitives import serialization

    chain = _certificates(certificate)
    where = key or certificate
    try:
        private = serialization.load_pem_private_key(_read(where), None)
    except TypeError:
        raise JobError(f"The key in {where} is encrypted: decrypt it first.") from None
    except ValueError:
        advice = "" if key else " Name the file that has it with --key."
        raise JobError(f"There is no private key in {where} that can be read as PEM.{advice}") from None
    if chain[0].public_key() != private.public_key():
        raise JobError(f"The key in {where} does not belong to the certificate in {certificate}.")
    if chain[0].not_valid_after_utc < _now():
        raise JobError(
            f"The certificate in {certificate} expired on {chain[0].not_valid_after_utc:%Y-%m-%d}."
        )
    plain = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return plain + b"".join(each.public_bytes(serialization.Encoding.PEM) for each in chain)


def _hosts(certificate: x509.Certificate) -> list[str]:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def _common_name(certificate: x509.Certificate) -> str:
    from cryptography.x509.oid import NameOID

    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else socket.gethostname()


def _described(path: Path) -> Certificate:
    leaf = _certificates(path)[0]
    return Certificate(
        path.name,
        leaf.subject.rfc4514_string(),
        leaf.issuer.rfc4514_string(),
        _hosts(leaf),
        f"{leaf.not_valid_after_utc:%Y-%m-%d}",
    )
