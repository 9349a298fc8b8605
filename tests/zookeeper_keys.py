"""Keys, users and settings for a protected ZooKeeper."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ottla.jvm.zookeeper import ServerSecurity
from ottla.security.certificates import Authority, Issued, make_authority

USERS = {"kafka": 'pass"word\\1', "other": "pencil"}


class ZooKeeperKeys(NamedTuple):
    directory: Path
    authority: Authority
    ca: Path

    def pem(self, name: str, *hosts: str) -> Path:
        """Return key and certificate in one file."""
        return write_pem(self.directory / f"{name}.pem", self.authority.issue(name, hosts))

    def server(self, *, client_auth: str = "none", tls: bool = True, users: bool = True) -> ServerSecurity:
        known = USERS if users else {}
        if not tls:
            return ServerSecurity(users=known)
        return ServerSecurity(self.pem("zookeeper", "127.0.0.1", "localhost"), self.ca, client_auth, known)


def zookeeper_keys(directory: Path) -> ZooKeeperKeys:
    authority = make_authority("Test CA")
    ca = directory / "ca.pem"
    ca.write_bytes(authority.certificate_pem)
    return ZooKeeperKeys(directory, authority, ca)


def write_pem(path: Path, issued: Issued) -> Path:
    path.write_bytes(issued.key_pem + issued.certificate_pem)
    path.chmod(0o600)
    return path
