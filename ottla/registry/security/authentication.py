"""Logins: BASIC as in Confluent's servers, or KAFKA with the users of the cluster.

    authentication.method=BASIC
    authentication.roles=admin,developer
    authentication.realm=SchemaRegistry-Props

The users are in the password file named by the JAAS section of that realm, in the JAAS file that `SCHEMA_REGISTRY_OPTS`
names by `-Djava.security.auth.login.config=`, or in `authentication.password.file`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ottla.client.http_login import KafkaLogin
from ottla.http import BasicAuthentication
from ottla.http.authentication import Authenticate, BadPasswordFile, read_password_file
from ottla.registry.settings import BadSettings, RegistrySettings
from ottla.security.jaas import BadJaas, parse_file

_REALM = "SchemaRegistry-Props"
_JAAS_FILE = re.compile(r"-Djava\.security\.auth\.login\.config=(\"[^\"]*\"|\S+)")


def authentication(settings: RegistrySettings) -> Authenticate | None:
    """Return None if no login is required."""
    properties = settings.properties
    method = properties.get("authentication.method", "NONE").strip().upper() or "NONE"
    if method == "NONE":
        return None
    if method == "KAFKA":
        return KafkaLogin(settings.client, realm="schema-registry")
    if method != "BASIC":
        raise BadSettings(f"authentication.method {method} is unknown. Use NONE, BASIC or KAFKA.")
    realm = properties.get("authentication.realm") or _REALM
    path = properties.get("authentication.password.file") or _file_of_jaas(realm)
    if not path:
        raise BadSettings(
            "authentication.method=BASIC needs a file with users: name it in authentication.password.file, or in "
            f"section {realm} of the JAAS file in SCHEMA_REGISTRY_OPTS."
        )
    try:
        users = read_password_file(path)
    except BadPasswordFile as error:
        raise BadSettings(str(error)) from None
    # Jetty's ** admits any logged-in user, with or without a role.
    given = properties.get("authentication.roles", "*").replace("**", "*")
    roles = [each.strip() for each in given.split(",")]
    return BasicAuthentication(users, realm=realm, roles=roles)


def _file_of_jaas(realm: str) -> str:
    found = _JAAS_FILE.search(os.environ.get("SCHEMA_REGISTRY_OPTS", ""))
    if found is None:
        return ""
    path = Path(found[1].strip('"'))
    try:
        sections = parse_file(path.read_text("utf-8"))
    except OSError as error:
        raise BadSettings(f"The JAAS file {path} cannot be read: {error.strerror}.") from None
    except (BadJaas, UnicodeDecodeError) as error:
        raise BadSettings(f"The JAAS file {path} cannot be read: {error}.") from None
    return next((module.options.get("file", "") for module in sections.get(realm, ())), "")
