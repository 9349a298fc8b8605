"""A Kerberos realm with its own KDC in a temporary directory."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ottla.testing.ports import free_ports

SERVICES = ("kafka", "other")


@dataclass(frozen=True)
class Realm:
    name: str
    directory: Path

    def keytab(self, name: str) -> str:
        return str(self.directory / f"{name}.keytab")


def unavailable() -> str | None:
    """Return the reason why no realm can run here, if any."""
    for package in ("gssapi", "k5test"):
        if find_spec(package) is None:
            return f"{package} is not installed"
    if shutil.which("krb5kdc") is None and not Path("/usr/sbin/krb5kdc").exists():
        return "there is no krb5kdc: install krb5-kdc and krb5-admin-server"
    return None


@contextmanager
def realm(user: str) -> Iterator[Realm]:
    """A realm in which the user has a ticket and a keytab, and each service a keytab. Sets the environment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # raised for the compiler's strings
        import k5test

    before = dict(os.environ)
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    [port] = free_ports(1)
    made = k5test.K5Realm(portbase=port, create_user=False, create_host=False, get_creds=False)
    found = Realm(made.realm, Path(made.tmpdir))
    try:
        os.environ.update(made.env)
        for name, principal in [(user, user), *((service, f"{service}/localhost") for service in SERVICES)]:
            made.addprinc(principal)
            made.extract_keytab(principal, found.keytab(name))
        made.kinit(user, flags=["-k", "-t", found.keytab(user)])
        yield found
    finally:
        made.stop()
        os.environ.clear()
        os.environ.update(before)
