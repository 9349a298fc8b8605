"""The file of `ottla apply` and `ottla export`: reads YAML with line numbers, checks it, writes it.

docs/reference/cluster-file.md documents the format.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from ottla.cli.errors import JobError

VERSION = 1
SECTIONS = ("topics", "brokers", "users", "acls", "quotas", "schemas", "connectors", "mirrors", "queries")
QUOTAS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)

_MOST_NODES = 1_000_000

# Scalars stay text, so that `retention.ms: 0100` or `on` reaches the broker as written. None is YAML's null.
Value = Any
Path_ = tuple[str, ...]


@dataclass
class ClusterFile:
    """The checked content. Sections missing from the file are missing here, too."""

    name: str
    sections: dict[str, Any] = field(default_factory=dict)
    lines: dict[Path_, int] = field(default_factory=dict)

    def where(self, *path: object) -> str:
        """Return "FILE:LINE: a.b.c", with the line of the nearest known parent."""
        names = tuple(map(str, path))
        line = next((self.lines[names[:n]] for n in range(len(names), 0, -1) if names[:n] in self.lines), 1)
        return f"{self.name}:{line}: {'.'.join(names)}"

    def fail(self, problem: str, *path: object) -> NoReturn:
        raise JobError(f"{self.where(*path)} {problem}")


def read_cluster_file(path: Path | None, text: str | None = None) -> ClusterFile:
    """Read and check a file; `text` replaces its content. Raises JobError with file and line."""
    import yaml

    found = ClusterFile("standard input" if path is None else str(path))
    if text is None:
        assert path is not None
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise JobError(f"{path} cannot be read: {reason}.") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = {} if root is None else _Plain(found).value(root, ())
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        raise JobError(f"{found.name}:{line}: this is not YAML: {error.problem}.") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise JobError(f"{found.name} is not YAML: {str(error).splitlines()[0]}.") from None
    if not isinstance(data, dict):
        raise JobError(f"{found.name}:1: the file must be a mapping that starts with 'version: {VERSION}'.")
    _check(found, data)
    return found


class _Plain:
    """Turns YAML's nodes into dicts, lists and text, and notes their lines."""

    def __init__(self, file: ClusterFile) -> None:
        self._file = file
        self._left = _MOST_NODES

    def value(self, node: Any, path: Path_) -> Value:
        import yaml

        self._file.lines.setdefault(path, node.start_mark.line + 1)
        self._left -= 1
        if self._left < 0:
            raise JobError(f"{self._file.name} has more than {_MOST_NODES} values.")
        if isinstance(node, yaml.MappingNode):
            found: dict[str, Value] = {}
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise JobError(f"{self._file.name}:{key.start_mark.line + 1}: a key must be plain text.")
                name = str(key.value)
                here = (*path, name)
                if name in found:
                    line = key.start_mark.line + 1
                    raise JobError(f"{self._file.name}:{line}: {'.'.join(here)} is there twice.")
                self._file.lines[here] = key.start_mark.line + 1
                found[name] = self.value(value, here)
            return found
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, (*path, str(number))) for number, each in enumerate(node.value)]
        return None if node.tag.endswith(":null") else str(node.value)


# Checks


def _check(file: ClusterFile, data: dict[str, Value]) -> None:
    if "version" not in data:
        raise JobError(f"{file.name}:1: version is missing. Write 'version: {VERSION}'.")
    version = data.pop("version")
    if version != str(VERSION):
        file.fail(f"is {version}, but this ottla reads version {VERSION}.", "version")
    _known(file, data, SECTIONS, ())
    for section, content in data.items():
        file.sections[section] = _CHECKS[section](file, content)


def _known(file: ClusterFile, data: Mapping[str, Value], known: tuple[str, ...], path: Path_) -> None:
    from difflib import get_close_matches

    for key in data:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f"Did you mean '{close[0]}'?" if close else f"Known keys: {', '.join(known)}."
            file.fail(f"is unknown. {hint}", *path, key)


def _mapping(file: ClusterFile, data: Value, *path: str) -> dict[str, Value]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        file.fail("must be a mapping.", *path)
    return data


def _list(file: ClusterFile, data: Value, *path: str) -> list[Value]:
    if data is None:
        return []
    if not isinstance(data, list):
        file.fail("must be a list.", *path)
    return data


def _text(file: ClusterFile, data: Value, *path: str) -> str:
    if not isinstance(data, str) or not data:
        file.fail("must be text.", *path)
    return data


def _number(file: ClusterFile, data: Value, *path: str, least: int = 1, most: int = (1 << 31) - 1) -> int:
    if (
        not isinstance(data, str)
        or not data.isascii()
        or not data.isdigit()
        or not least <= int(data) <= most
    ):
        file.fail(f"must be a whole number of at least {least}, not {_shown(data)}.", *path)
    return int(data)


def _shown(data: Value) -> str:
    if isinstance(data, str):
        return f"'{data}'"
    return "a mapping" if isinstance(data, dict) else "a list" if isinstance(data, list) else "nothing"


def _settings(file: ClusterFile, data: Value, *path: str) -> dict[str, str]:
    """Return settings as text. A list of values becomes one value with commas."""
    found = {}
    for name, value in _mapping(file, data, *path).items():
        if isinstance(value, list):
            value = ",".join(_text(file, each, *path, name, str(n)) for n, each in enumerate(value))
        if not isinstance(value, str):
            file.fail(f"must be a value, not {_shown(value)}.", *path, name)
        found[name] = value
    return found


def _topics(file: ClusterFile, data: Value) -> dict[str, Any]:
    found = {}
    for name, topic in _mapping(file, data, "topics").items():
        here = ("topics", name)
        topic = _mapping(file, topic, *here)
        _known(file, topic, ("partitions", "replication", "configs"), here)
        counts: dict[str, Any] = {
            key: _number(file, topic[key], *here, key)
            for key in ("partitions", "replication")
            if key in topic
        }
        found[name] = {**counts, "configs": _settings(file, topic.get("configs"), *here, "configs")}
    return found


def _brokers(file: ClusterFile, data: Value) -> dict[str, dict[str, str]]:
    found = {}
    for name, settings in _mapping(file, data, "brokers").items():
        if name != "default" and not name.isdigit():
            file.fail("must be 'default' or the id of a broker.", "brokers", name)
        found[name] = _settings(file, settings, "brokers", name)
    return found


_PASSWORDS = ("password", "password-file", "password-env")
DEFAULT_MECHANISMS = {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 8192}


def _users(file: ClusterFile, data: Value) -> dict[str, Any]:
    found = {}
    for name, user in _mapping(file, data, "users").items():
        here = ("users", name)
        user = _mapping(file, user, *here)
        _known(file, user, ("mechanisms", *_PASSWORDS), here)
        given = [key for key in _PASSWORDS if key in user]
        if len(given) > 1:
            file.fail(f"has both {given[0]} and {given[1]}. Keep one of them.", *here)
        mechanisms = _mapping(file, user.get("mechanisms"), *here, "mechanisms")
        _known(file, mechanisms, tuple(DEFAULT_MECHANISMS), (*here, "mechanisms"))
        iterations = {
            key: _number(file, value, *here, "mechanisms", key, least=4096, most=16384)
            for key, value in mechanisms.items()
        }
        found[name] = {
            "mechanisms": iterations or DEFAULT_MECHANISMS,
            **{key: _text(file, user[key], *here, key) for key in given},
        }
    return found


def password_of(file: ClusterFile, user: str) -> str:
    """Return the password that the file names for a user. Raises JobError without one."""
    given = file.sections["users"][user]
    here = ("users", user)
    if "password" in given:
        return str(given["password"])
    if "password-env" in given:
        value = os.environ.get(given["password-env"])
        if not value:
            file.fail(f"names the environment variable {given['password-env']}, which is not set.", *here)
        return value
    if "password-file" in given:
        secret = Path(given["password-file"])
        if not secret.is_absolute():
            secret = Path(file.name).parent / secret
        try:
            value = secret.read_text("utf-8").partition("\n")[0].rstrip("\r")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            file.fail(f"needs {secret}, which cannot be read: {reason}.", *here)
        if not value:
            file.fail(f"needs {secret}, which has no password in its first line.", *here)
        return value
    file.fail(f"needs a password for this change. Add one of {', '.join(_PASSWORDS)}.", *here)


def _acls(file: ClusterFile, data: Value) -> list[Any]:
    from ottla.security.acls import (
        CLUSTER_NAME,
        Acl,
        Entry,
        Operation,
        PatternType,
        Permission,
        ResourcePattern,
        ResourceType,
    )

    def one_of(kind: Any, words: Value, *path: str) -> Any:
        allowed = {
            each.name.lower().replace("_", "-"): each for each in kind if each.name not in _NOT_IN_ACLS
        }
        if not isinstance(words, str) or words.lower().replace("_", "-") not in allowed:
            file.fail(f"must be one of {', '.join(allowed)}, not {_shown(words)}.", *path)
        return allowed[words.lower().replace("_", "-")]

    found = []
    for number, acl in enumerate(_list(file, data, "acls")):
        here = ("acls", str(number))
        acl = _mapping(file, acl, *here)
        _known(
            file, acl, ("principal", "resource", "name", "pattern", "operations", "permission", "host"), here
        )
        for key in ("principal", "resource", "operations"):
            if key not in acl:
                file.fail(f"has no {key}.", *here)
        principal = _text(file, acl["principal"], *here, "principal")
        if ":" not in principal:
            file.fail(f"must be like User:{principal}.", *here, "principal")
        resource = one_of(ResourceType, acl["resource"], *here, "resource")
        if resource is not ResourceType.CLUSTER and "name" not in acl:
            file.fail("has no name. Use '*' for all.", *here)
        pattern = ResourcePattern(
            resource,
            CLUSTER_NAME if resource is ResourceType.CLUSTER else _text(file, acl["name"], *here, "name"),
            one_of(PatternType, acl.get("pattern", "literal"), *here, "pattern"),
        )
        permission = one_of(Permission, acl.get("permission", "allow"), *here, "permission")
        host = _text(file, acl.get("host", "*"), *here, "host")
        for at, operation in enumerate(_list(file, acl["operations"], *here, "operations")):
            operation = one_of(Operation, operation, *here, "operations", str(at))
            found.append(Acl(pattern, Entry(principal, host, operation, permission)))
    return found


_NOT_IN_ACLS = ("UNKNOWN", "ANY", "MATCH")
_ENTITIES = ("user", "client-id", "ip")


def _quotas(file: ClusterFile, data: Value) -> list[Any]:
    """Return pairs of entity and values. The name None is the default of a kind."""
    found: list[tuple[dict[str, str | None], dict[str, float]]] = []
    for number, quota in enumerate(_list(file, data, "quotas")):
        here = ("quotas", str(number))
        quota = _mapping(file, quota, *here)
        _known(file, quota, (*_ENTITIES, *QUOTAS), here)
        entity = {key: quota[key] for key in _ENTITIES if key in quota}
        if not entity:
            file.fail("has no user, client-id or ip.", *here)
        if "ip" in entity and len(entity) > 1:
            file.fail("has an ip beside a user or client-id, which Kafka does not combine.", *here)
        if any(entity == other for other, _ in found):
            file.fail("is there twice.", *here)
        values = {}
        for key in QUOTAS:
            if key in quota:
                try:
                    values[key] = float(quota[key])
                except (TypeError, ValueError):
                    file.fail(f"must be a number, not {_shown(quota[key])}.", *here, key)
                if not 0 < values[key] < float("inf"):
                    file.fail("must be greater than 0.", *here, key)
        found.append((entity, values))
    return found


_COMPATIBILITY = tuple(
    f"{kind}{suffix}" for kind in ("BACKWARD", "FORWARD", "FULL") for suffix in ("", "_TRANSITIVE")
)


def _schemas(file: ClusterFile, data: Value) -> dict[str, Any]:
    from ottla.client.schema_registry import Reference, Schema

    found = {}
    for name, subject in _mapping(file, data, "schemas").items():
        here = ("schemas", name)
        subject = _mapping(file, subject, *here)
        _known(file, subject, ("compatibility", "versions"), here)
        level = subject.get("compatibility")
        if level is not None and level not in ("NONE", *_COMPATIBILITY):
            file.fail(f"must be NONE or one of {', '.join(_COMPATIBILITY)}.", *here, "compatibility")
        versions = []
        for number, version in enumerate(_list(file, subject.get("versions"), *here, "versions")):
            at = (*here, "versions", str(number))
            version = _mapping(file, version, *at)
            _known(file, version, ("type", "schema", "references"), at)
            kind = version.get("type", "AVRO")
            if kind not in ("AVRO", "JSON", "PROTOBUF"):
                file.fail("must be AVRO, JSON or PROTOBUF.", *at, "type")
            references = []
            for n, each in enumerate(_list(file, version.get("references"), *at, "references")):
                each = _mapping(file, each, *at, "references", str(n))
                _known(file, each, ("name", "subject", "version"), (*at, "references", str(n)))
                references.append(
                    Reference(
                        _text(file, each.get("name"), *at, "references", str(n), "name"),
                        _text(file, each.get("subject"), *at, "references", str(n), "subject"),
                        _number(file, each.get("version"), *at, "references", str(n), "version"),
                    )
                )
            versions.append(
                Schema(_text(file, version.get("schema"), *at, "schema"), kind, tuple(references))
            )
        if not versions:
            file.fail("has no versions.", *here)
        found[name] = {"compatibility": level, "versions": versions}
    return found


def _connectors(file: ClusterFile, data: Value) -> dict[str, dict[str, str]]:
    found = {}
    for name, config in _mapping(file, data, "connectors").items():
        found[name] = _settings(file, config, "connectors", name)
        if not found[name].get("connector.class"):
            file.fail("has no connector.class.", "connectors", name)
        if found[name].pop("name", name) != name:
            file.fail("must be the name of the connector. Leave it out.", "connectors", name, "name")
    return found


def _mirrors(file: ClusterFile, data: Value) -> dict[str, dict[str, str]]:
    """Return the properties of each mm2.properties by its name."""
    found = {}
    for name, properties in _mapping(file, data, "mirrors").items():
        if not name or name.startswith(".") or "/" in name:
            file.fail("must be the name of a file without '/'.", "mirrors", name)
        found[name] = _settings(file, properties, "mirrors", name)
    return found


def _queries(file: ClusterFile, data: Value) -> list[str]:
    return [
        _text(file, each, "queries", str(n)).strip() for n, each in enumerate(_list(file, data, "queries"))
    ]


_CHECKS: dict[str, Callable[[ClusterFile, Value], Any]] = {
    "topics": _topics,
    "brokers": _brokers,
    "users": _users,
    "acls": _acls,
    "quotas": _quotas,
    "schemas": _schemas,
    "connectors": _connectors,
    "mirrors": _mirrors,
    "queries": _queries,
}


# Writing


def dump_cluster_file(sections: Mapping[str, Any]) -> str:
    import yaml

    return str(
        yaml.safe_dump(
            {"version": VERSION, **_natural(sections)}, sort_keys=False, allow_unicode=True, width=110
        )
    )


def _natural(value: Any) -> Any:
    """Turn digits, true and false into numbers and booleans, which need no quotes."""
    if isinstance(value, Mapping):
        return {_natural_key(key): _natural(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_natural(each) for each in value]
    if isinstance(value, str) and value.isascii() and value.isdigit() and str(int(value)) == value:
        return int(value)
    if value in ("true", "false"):
        return value == "true"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return value


def _natural_key(key: str) -> Any:
    return int(key) if key.isascii() and key.isdigit() and str(int(key)) == key else key
