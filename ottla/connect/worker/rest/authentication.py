"""Authentication with the cluster's users (`authentication.method=KAFKA`) or with Kafka's basic auth extension.

With KAFKA, a caller needs ALTER on the cluster to change connectors and to see secrets in their configs, and DESCRIBE
to see the rest. Users of BasicAuthSecurityRestExtension may do everything. Their file has lines of the form
`name=password`. The JAAS file in `java.security.auth.login.config` names that file:

    KafkaConnect {
        org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required
            file="/etc/users.properties";
    };
"""

from __future__ import annotations

import hmac
import os
import re
from pathlib import Path

from ottla.client.http_login import KafkaLogin
from ottla.connect.config.config_def import ConfigError
from ottla.connect.config.worker_config import WorkerConfig
from ottla.http import HttpError, Request
from ottla.http.authentication import Authenticate, basic_credentials
from ottla.security.principal import USER_TYPE, KafkaPrincipal

_EXTENSION = "BasicAuthSecurityRestExtension"
_JAAS = "java.security.auth.login.config"


def authentication(worker: WorkerConfig) -> Authenticate | None:
    """Return None if the worker needs no authentication. Raises ConfigError."""
    if worker.values["authentication.method"].strip().upper() == "KAFKA":
        return KafkaLogin(worker.client_settings, realm="connect", error_code=401)
    for name in worker.values["rest.extension.classes"]:
        if not name.endswith(_EXTENSION):
            raise ConfigError(
                f"rest.extension.classes has {name}, which is Java: only {_EXTENSION} is known here."
            )
        return _Users(_passwords(_login_file(worker)))
    return None


class _Users:
    def __init__(self, passwords: dict[str, str]) -> None:
        self._passwords = passwords

    def __call__(self, request: Request) -> KafkaPrincipal:
        """Raises HttpError 401."""
        name, password = basic_credentials(request.headers.get("authorization")) or ("", "")
        known = self._passwords.get(name)
        matches = hmac.compare_digest((known or "").encode(), password.encode())
        if known is None or not matches:
            raise HttpError(
                401, 401, "User cannot access the resource.", {"WWW-Authenticate": 'Basic realm="connect"'}
            )
        return KafkaPrincipal(USER_TYPE, name)


def _login_file(worker: WorkerConfig) -> Path:
    path = worker.properties.get(_JAAS) or _from_options(os.environ.get("KAFKA_OPTS", ""))
    if not path:
        raise ConfigError(
            f"{_EXTENSION} needs users: name a JAAS file in {_JAAS}, or in KAFKA_OPTS as -D{_JAAS}=FILE."
        )
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read the JAAS file {path}: {error}.") from None
    section = re.search(r"KafkaConnect\s*\{(.*?)\}\s*;", text, re.DOTALL)
    file = re.search(r'PropertyFileLoginModule\b[^;]*\bfile\s*=\s*"([^"]+)"', section[1] if section else "")
    if file is None:
        raise ConfigError(
            f"{path} has no section KafkaConnect with a PropertyFileLoginModule and its file: that names the users."
        )
    return Path(file[1])


def _from_options(options: str) -> str:
    found = re.search(rf"-D{re.escape(_JAAS)}=(\S+)", options)
    return found[1].strip("\"'") if found else ""


def _passwords(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read the users in {file}: {error}.") from None
    found = {}
    for line in lines:
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            name, _, password = re.sub(r"\s*[=:]\s*", "=", line.strip(), count=1).partition("=")
            found[name] = password
    return found
