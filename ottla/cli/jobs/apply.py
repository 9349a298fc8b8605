"""Compare a cluster file with a live cluster and its servers, plan the changes, make them; and export the file.

Each section has a function that appends changes to the plan, after it has checked them against the live cluster,
and a function that reads the section from there. Without `prune` nothing that the file omits is touched.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ottla.cli.errors import JobError
from ottla.cli.jobs.cluster_file import ClusterFile, password_of
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.json_server import JsonServer, Refused, path_of
from ottla.client.schema_registry import RegistryError, RegistrySettings, Schema, SchemaRegistry

# Topics that servers of the platform create for themselves. --prune keeps them.
_KEPT = re.compile(r"_.*|connect-(configs|offsets|status)|mm2-.*|.*\.checkpoints\.internal|heartbeats")
_MOVE_SECONDS = 600


@dataclass(frozen=True)
class Change:
    """`sign` is + for a creation, ~ for an alteration, - for a deletion."""

    sign: str
    text: str
    run: Callable[[], object]


@dataclass
class Servers:
    """The cluster, and the servers beside it. `mirrors` is the directory of the mm2.properties files."""

    cluster: Cluster
    registry: Mapping[str, str] | None = None
    connect: JsonServer | None = None
    sql: JsonServer | None = None
    mirrors: Path | None = None
    made: list[SchemaRegistry] = field(default_factory=list)

    @cached_property
    def schema_registry(self) -> SchemaRegistry:
        self.made.append(SchemaRegistry(RegistrySettings.from_properties(self.registry or {})))
        return self.made[-1]

    def close(self) -> None:
        for each in self.made:
            each.close()


class Plan:
    def __init__(self, file: ClusterFile, servers: Servers, prune: bool) -> None:
        self.changes: list[Change] = []
        self._file = file
        self._servers = servers
        self._cluster = servers.cluster
        self._prune = prune
        steps: dict[str, Callable[[Any], None]] = {
            "users": self._users,
            "brokers": self._brokers,
            "topics": self._topics,
            "acls": self._acls,
            "quotas": self._quotas,
            "schemas": self._schemas,
            "connectors": self._connectors,
            "mirrors": self._mirrors,
            "queries": self._queries,
        }
        for section, step in steps.items():
            if section in file.sections:
                step(file.sections[section])

    @property
    def deletes(self) -> bool:
        return any(change.sign == "-" for change in self.changes)

    def _add(self, sign: str, text: str, run: Callable[[], object]) -> None:
        self.changes.append(Change(sign, text, run))

    def _try(self, check: Callable[[], object], *path: object) -> None:
        """Let the broker check a change. Its refusal names the place in the file."""
        try:
            check()
        except ClientError as error:
            raise JobError(f"{self._file.where(*path)}: {error.message}") from None

    # Topics and settings

    def _topics(self, wanted: dict[str, Any]) -> None:
        from ottla.client.admin.configs import Resource, alter_configs
        from ottla.client.admin.topics import (
            add_partitions,
            create_topic,
            delete_topics,
            describe_topics,
            topic_names,
        )

        there = topic_names(self._cluster, include_internal=True)
        names = [name for name in wanted if name in there]
        live = {each.name: each for each in describe_topics(self._cluster, names, with_configs=True)}
        brokers = len(self._cluster.nodes())
        for name, topic in wanted.items():
            here = ("topics", name)
            copies, count, configs = topic.get("replication"), topic.get("partitions"), topic["configs"]
            if copies is not None and copies > brokers:
                self._file.fail(
                    f"is {copies}, but the cluster has {_plural(brokers, 'broker')}.", *here, "replication"
                )
            if name not in live:
                create = partial(
                    create_topic,
                    self._cluster,
                    name,
                    partitions=count,
                    replication_factor=copies,
                    configs=configs,
                )
                self._try(partial(create, validate_only=True), *here)
                parts = [_plural(count, "partition")] if count else []
                parts += [f"replication {copies}"] if copies else []
                parts += [f"{key}={value}" for key, value in configs.items()]
                self._add("+", f"topic {name}" + (f" ({', '.join(parts)})" if parts else ""), create)
                continue
            found = live[name]
            if count is not None and count < len(found.partitions):
                self._file.fail(
                    f"is {count}, but the topic has {_plural(len(found.partitions), 'partition')}, and Kafka cannot "
                    "remove partitions. Create a new topic instead.",
                    *here,
                    "partitions",
                )
            if count is not None and count > len(found.partitions):
                self._add(
                    "~",
                    f"topic {name}: partitions {len(found.partitions)} → {count}",
                    partial(add_partitions, self._cluster, name, count),
                )
            if copies is not None and copies != found.replication_factor:
                self._add(
                    "~",
                    f"topic {name}: replication {found.replication_factor} → {copies}",
                    partial(_replicate, self._cluster, name, copies),
                )
            self._settings(
                f"topic {name}",
                Resource("topic", name),
                configs,
                found.configs,
                alter_configs,
                (*here, "configs"),
            )
        if self._prune:
            for name in topic_names(self._cluster):
                if name not in wanted and not _KEPT.fullmatch(name):
                    self._add(
                        "-",
                        f"topic {name} with all its records",
                        partial(delete_topics, self._cluster, [name]),
                    )

    def _brokers(self, wanted: dict[str, dict[str, str]]) -> None:
        from ottla.client.admin.configs import Resource, alter_configs

        live = broker_settings(self._cluster)
        for name, settings in wanted.items():
            if name not in live:
                known = ", ".join(map(str, self._cluster.nodes()))
                self._file.fail(f"is not a broker of the cluster, which has {known}.", "brokers", name)
            resource = Resource("broker", "" if name == "default" else name)
            what = "all brokers" if name == "default" else f"broker {name}"
            self._settings(what, resource, settings, live[name], alter_configs, ("brokers", name))
        if self._prune:
            for name in live:
                if name not in wanted and live[name]:
                    resource = Resource("broker", "" if name == "default" else name)
                    what = "all brokers" if name == "default" else f"broker {name}"
                    self._settings(what, resource, {}, live[name], alter_configs, ("brokers",))

    def _settings(
        self,
        what: str,
        resource: Any,
        wanted: Mapping[str, str],
        live: Mapping[str, str | None],
        alter: Callable[..., None],
        here: tuple[str, ...],
    ) -> None:
        # A hidden value (None) cannot be compared: it stays.
        changed = {
            key: value for key, value in wanted.items() if key not in live or live[key] not in (value, None)
        }
        gone = [key for key in live if key not in wanted] if self._prune else []
        for key, value in changed.items():
            self._try(
                partial(alter, self._cluster, resource, set_={key: value}, validate_only=True), *here, key
            )
        if changed:
            shown = [f"{key} {live.get(key, '(default)')} → {value}" for key, value in changed.items()]
            self._add(
                "~", f"{what}: {', '.join(shown)}", partial(alter, self._cluster, resource, set_=changed)
            )
        if gone:
            self._add(
                "-", f"{what}: {', '.join(gone)} back to the default",
                partial(alter, self._cluster, resource, delete=gone),
            )  # fmt: skip

    # Users, ACLs, quotas

    def _users(self, wanted: dict[str, Any]) -> None:
        from ottla.client.admin.scram import Secret, alter_credentials, describe_credentials

        live = {each.user: each.iterations for each in describe_credentials(self._cluster, None)}
        for name, user in wanted.items():
            mechanisms: dict[str, int] = user["mechanisms"]
            found = live.get(name, {})
            extra = [each for each in found if each not in mechanisms] if self._prune else []
            changed = {key: count for key, count in mechanisms.items() if found.get(key) != count}
            if changed:
                password = password_of(self._file, name)
                secrets = {key: Secret(password, count) for key, count in changed.items()}
                self._add(
                    "~" if name in live else "+",
                    f"user {name} ({', '.join(changed)})",
                    partial(alter_credentials, self._cluster, name, set_=secrets),
                )
            if extra:
                self._add(
                    "-", f"user {name}: {', '.join(extra)}",
                    partial(alter_credentials, self._cluster, name, set_={}, delete=extra),
                )  # fmt: skip
        if self._prune:
            for name in sorted(live.keys() - wanted.keys()):
                remove = partial(alter_credentials, self._cluster, name, set_={}, delete=live[name])
                self._add("-", f"user {name}", remove)

    def _acls(self, wanted: list[Any]) -> None:
        from ottla.client.admin.acls import create_acls, delete_acls, describe_acls
        from ottla.security.acls import AclFilter

        live = set(describe_acls(self._cluster, AclFilter()))
        for acl in dict.fromkeys(wanted):
            if acl not in live:
                self._add("+", f"ACL {_acl_text(acl)}", partial(create_acls, self._cluster, [acl]))
        if self._prune:
            for acl in sorted(live.difference(wanted)):
                one = AclFilter(
                    acl.pattern.resource_type, acl.pattern.name, acl.pattern.pattern_type,
                    acl.entry.principal, acl.entry.host, acl.entry.operation, acl.entry.permission,
                )  # fmt: skip
                self._add("-", f"ACL {_acl_text(acl)}", partial(delete_acls, self._cluster, [one]))

    def _quotas(self, wanted: list[tuple[dict[str, str | None], dict[str, float]]]) -> None:
        from ottla.client.admin.quotas import alter_quotas

        live = {_key(quota.entity): quota for quota in all_quotas(self._cluster)}
        for number, (entity, values) in enumerate(wanted):
            found = live.pop(_key(entity), None)
            there = found.values if found else {}
            changed = {key: value for key, value in values.items() if there.get(key) != value}
            if changed:
                shown = ", ".join(f"{key}={value:g}" for key, value in changed.items())
                change = partial(alter_quotas, self._cluster, entity, set_=changed)
                self._try(partial(change, validate_only=True), "quotas", number)
                self._add("~" if there else "+", f"quota of {_entity_text(entity)}: {shown}", change)
            gone = [key for key in there if key not in values] if self._prune else []
            if gone:
                change = partial(alter_quotas, self._cluster, entity, delete=gone)
                self._add("-", f"quota of {_entity_text(entity)}: {', '.join(gone)}", change)
        if self._prune:
            for quota in live.values():
                change = partial(alter_quotas, self._cluster, quota.entity, delete=list(quota.values))
                self._add("-", f"quota of {_entity_text(quota.entity)}", change)

    # Schemas, connectors, mirrors, queries

    def _schemas(self, wanted: dict[str, Any]) -> None:
        registry = self._servers.schema_registry
        live = set(registry.subjects())
        for subject, given in wanted.items():
            level = given["compatibility"]
            if level is not None and level != compatibility(registry, subject):
                path = path_of("config", subject)
                change = partial(registry.request, "PUT", path, {"compatibility": level})
                self._add("~", f"subject {subject}: compatibility {level}", change)
            for number, schema in enumerate(given["versions"], 1):
                if subject not in live or not _is_registered(registry, subject, schema):
                    self._add(
                        "+", f"schema {subject} version {number} ({schema.type})",
                        partial(registry.register, subject, schema),
                    )  # fmt: skip
        if self._prune:
            for subject in sorted(live - wanted.keys()):
                self._add(
                    "-",
                    f"subject {subject}",
                    partial(registry.request, "DELETE", path_of("subjects", subject)),
                )

    def _connectors(self, wanted: dict[str, dict[str, str]]) -> None:
        live = connectors(self._servers)
        worker = self._servers.connect
        assert worker is not None
        for name, config in wanted.items():
            if live.get(name) == config:
                continue
            self._check_connector(worker, name, config)
            change = partial(
                worker.request, "PUT", path_of("connectors", name, "config"), {**config, "name": name}
            )
            if name in live:
                keys = [key for key in config | live[name] if config.get(key) != live[name].get(key)]
                self._add("~", f"connector {name}: {', '.join(keys)}", change)
            else:
                self._add("+", f"connector {name} ({config['connector.class']})", change)
        if self._prune:
            for name in sorted(live.keys() - wanted.keys()):
                self._add(
                    "-", f"connector {name}", partial(worker.request, "DELETE", path_of("connectors", name))
                )

    def _check_connector(self, worker: JsonServer, name: str, config: dict[str, str]) -> None:
        path = path_of(
            "connector-plugins", config["connector.class"].rpartition(".")[2], "config", "validate"
        )
        here = ("connectors", name)
        try:
            checked = worker.request("PUT", path, {**config, "name": name})
        except Refused as error:
            self._file.fail(f"is refused by the worker: {error.message.rstrip('.')}.", *here)
        for each in checked.get("configs", ()):
            if errors := each["value"]["errors"]:
                self._file.fail(
                    f"is refused by the worker: {errors[0].rstrip('.')}.", *here, each["value"]["name"]
                )

    def _mirrors(self, wanted: dict[str, dict[str, str]]) -> None:
        live = mirrors(self._servers)
        directory = self._servers.mirrors
        assert directory is not None
        for name, properties in wanted.items():
            self._check_mirror(name, properties)
            if live.get(name) != properties:
                file = directory / f"{name}.properties"
                self._add(
                    "~" if name in live else "+", f"mirror {name} ({file})", partial(_write, file, properties)
                )
        if self._prune:
            for name in sorted(live.keys() - wanted.keys()):
                file = directory / f"{name}.properties"
                self._add("-", f"mirror {name} ({file})", file.unlink)

    def _check_mirror(self, name: str, properties: dict[str, str]) -> None:
        from ottla.mirror.settings import BadMirrorSettings, parse_flows

        if "link.name" in properties:  # a link checks its own file when it starts
            return
        try:
            parse_flows(properties)
        except BadMirrorSettings as error:
            self._file.fail(f"cannot run: {error}", "mirrors", name)

    def _queries(self, wanted: list[str]) -> None:
        live = sql_sources(self._servers)
        named = {}
        for number, statement in enumerate(wanted):
            name = _created(statement)
            if name is None:
                self._file.fail("must be CREATE STREAM or CREATE TABLE.", "queries", number)
            if name in named:
                self._file.fail(f"creates {name} a second time.", "queries", number)
            named[name] = statement
        for name, statement in named.items():
            if name not in live:
                self._add("+", f"query {name}", partial(self._sql, statement))
            elif _same(live[name]) != _same(statement):
                replacing = _CREATE.sub(
                    lambda m: f"CREATE OR REPLACE {m['source'] or ''}{m['kind']} ", statement, 1
                )
                self._add("~", f"query {name}", partial(self._sql, replacing))
        if self._prune:
            # The last one first: later sources read earlier ones.
            for name in reversed([each for each in live if each not in named]):
                found = _CREATE.match(live[name])
                kind = found["kind"] if found else "STREAM"
                self._add("-", f"query {name}", partial(self._sql, f"DROP {kind} IF EXISTS {name}"))

    def _sql(self, statement: str) -> None:
        assert self._servers.sql is not None
        self._servers.sql.request("POST", "/ksql", {"ksql": statement.rstrip("; \n") + ";"})


def _is_registered(registry: SchemaRegistry, subject: str, schema: Schema) -> bool:
    try:
        registry.lookup(subject, schema)
        return True
    except RegistryError as error:
        if error.is_not_found:
            return False
        raise


def _replicate(cluster: Cluster, topic: str, copies: int) -> None:
    """Change the number of replicas: keep the first ones, add the brokers with the fewest replicas. Wait for it."""
    from ottla.client.admin.reassignments import list_reassignments, reassign
    from ottla.client.admin.topics import describe_topics

    [described] = describe_topics(cluster, [topic])
    load = Counter(dict.fromkeys(cluster.nodes(), 0))
    load.update(each for partition in described.partitions for each in partition.replicas)
    wanted: dict[tuple[str, int], list[int] | None] = {}
    for partition in described.partitions:
        replicas = partition.replicas[:copies]
        while len(replicas) < copies:
            replicas.append(
                min((each for each in load if each not in replicas), key=lambda each: (load[each], each))
            )
            load[replicas[-1]] += 1
        wanted[topic, partition.partition] = replicas
    for refusal in reassign(cluster, wanted).values():
        raise JobError(f"Topic '{topic}' cannot be replicated {copies} times: {refusal}")
    deadline = time.monotonic() + _MOVE_SECONDS
    while any(name == topic for name, _ in list_reassignments(cluster)):
        if time.monotonic() > deadline:
            raise JobError(
                f"The replicas of topic '{topic}' are still being copied. Apply the file again later."
            )
        time.sleep(0.2)


def _write(file: Path, properties: Mapping[str, str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.touch(mode=0o600)
    lines = (f"{_escaped(key)}={_escaped(value, is_value=True)}\n" for key, value in properties.items())
    new.write_text("".join(lines), "utf-8")
    new.replace(file)


def _escaped(text: str, *, is_value: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    if is_value:
        return f"\\{text}" if text.startswith(" ") else text
    return re.sub(r"([\s=:#!])", r"\\\1", text)


# Reading a live cluster


def broker_settings(cluster: Cluster) -> dict[str, dict[str, str | None]]:
    """Return dynamic settings by broker id, those of all brokers as "default"."""
    from ottla.client.admin.configs import Resource, describe_many

    found: dict[str, dict[str, str | None]] = {}
    names = ["", *map(str, cluster.nodes())]
    for resource, entries in describe_many(cluster, [Resource("broker", name) for name in names]).items():
        source = "DYNAMIC_BROKER_CONFIG" if resource.name else "DYNAMIC_DEFAULT_BROKER_CONFIG"
        found[resource.name or "default"] = {
            entry.name: None if entry.sensitive else entry.value
            for entry in entries
            if entry.source == source
        }
    return found


def all_quotas(cluster: Cluster) -> list[Any]:
    from ottla.client.admin.quotas import ANY, describe_quotas

    kinds = (("user",), ("client-id",), ("user", "client-id"), ("ip",))
    return [quota for kind in kinds for quota in describe_quotas(cluster, dict.fromkeys(kind, ANY))]


def compatibility(registry: SchemaRegistry, subject: str) -> str | None:
    """Return the level set for the subject itself."""
    try:
        answer = registry.request("GET", path_of("config", subject))
    except RegistryError as error:
        if error.status == 404:
            return None
        raise
    return str(answer.get("compatibilityLevel") or "") or None


def connectors(servers: Servers) -> dict[str, dict[str, str]]:
    assert servers.connect is not None
    found = servers.connect.request("GET", "/connectors?expand=info") or {}
    return {
        name: {key: value for key, value in each["info"]["config"].items() if key != "name"}
        for name, each in sorted(found.items())
    }


def mirrors(servers: Servers) -> dict[str, dict[str, str]]:
    from ottla.properties import PropertiesError, decode_properties, parse_properties

    if servers.mirrors is None:
        raise JobError("Mirrors are files. Name their directory with --mirrors DIR.")
    found = {}
    for file in sorted(servers.mirrors.glob("*.properties")):
        try:
            lines = parse_properties(decode_properties(file.read_bytes()))
        except (OSError, PropertiesError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise JobError(f"{file} cannot be read: {reason}.") from None
        found[file.stem] = {each.key: each.value for each in lines}
    return found


_CREATE = re.compile(
    r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?P<source>SOURCE\s+)?(?P<kind>STREAM|TABLE)\s+(?:IF\s+NOT\s+EXISTS\s+)?",
    re.I,
)


def _created(statement: str) -> str | None:
    """Return the name of the stream or table that a statement creates."""
    if (found := _CREATE.match(statement)) is None:
        return None
    name = re.match(r"`([^`]+)`|(\w+)", statement[found.end() :])
    if name is None:
        return None
    return name[1] or name[2].upper()


def _same(statement: str) -> str:
    """Return the statement in a form for comparison: without OR REPLACE, line breaks and the final semicolon."""
    bare = _CREATE.sub(lambda m: f"CREATE {(m['source'] or '').strip()} {m['kind']} ", statement, count=1)
    return " ".join(bare.rstrip("; \n").split()).casefold()


def sql_sources(servers: Servers) -> dict[str, str]:
    """Return the CREATE statements by name, each after the sources that it reads."""
    server = servers.sql
    assert server is not None

    def ask(statement: str) -> dict[str, Any]:
        return dict((server.request("POST", "/ksql", {"ksql": statement}) or [{}])[0])

    names = [
        each["name"]
        for statement, kind in (("LIST STREAMS;", "streams"), ("LIST TABLES;", "tables"))
        for each in ask(statement).get(kind, [])
    ]
    found = {
        name: str(ask(f"DESCRIBE `{name}`;").get("sourceDescription", {}).get("statement", ""))
        for name in names
    }
    # A source that reads none comes first. Names in the statement decide; a circle is impossible.
    ordered: dict[str, str] = {}
    while len(ordered) < len(found):
        left = [name for name in found if name not in ordered]
        ready = [
            name for name in left
            if not any(re.search(rf"\b{re.escape(o)}\b", found[name], re.I) for o in left if o != name)
        ]  # fmt: skip
        ordered.update((name, found[name]) for name in ready or left)
    return ordered


# Export


def export(servers: Servers) -> dict[str, Any]:
    """Return the sections of the file. Servers that are not named are left out."""
    from ottla.client.admin.acls import describe_acls
    from ottla.client.admin.scram import describe_credentials
    from ottla.client.admin.topics import describe_topics, topic_names
    from ottla.security.acls import AclFilter

    cluster = servers.cluster
    found: dict[str, Any] = {
        "topics": {
            topic.name: {
                "partitions": len(topic.partitions),
                "replication": topic.replication_factor,
                **({"configs": dict(sorted(topic.configs.items()))} if topic.configs else {}),
            }
            for topic in describe_topics(cluster, topic_names(cluster), with_configs=True)
        },
        "brokers": {
            name: shown
            for name, settings in broker_settings(cluster).items()
            if (shown := {key: value for key, value in settings.items() if value is not None})
        },
    }
    if users := _unless_disabled(lambda: describe_credentials(cluster, None)):
        found["users"] = {
            each.user: {"mechanisms": each.iterations, "password-env": _variable(each.user)}
            for each in sorted(users, key=lambda each: each.user)
        }
    grouped: dict[Any, list[str]] = {}
    for acl in _unless_disabled(lambda: describe_acls(cluster, AclFilter())):
        key = (acl.pattern, acl.entry.principal, acl.entry.host, acl.entry.permission)
        grouped.setdefault(key, []).append(_word(acl.entry.operation))
    if grouped:
        found["acls"] = [
            {
                "principal": principal,
                "resource": _word(pattern.resource_type),
                "name": pattern.name,
                "pattern": _word(pattern.pattern_type),
                "operations": operations,
                "permission": _word(permission),
                "host": host,
            }
            for (pattern, principal, host, permission), operations in grouped.items()
        ]
    if quotas := all_quotas(cluster):
        found["quotas"] = [{**quota.entity, **quota.values} for quota in quotas]
    if servers.registry is not None:
        found["schemas"] = _exported_schemas(servers.schema_registry)
    if servers.connect is not None:
        found["connectors"] = connectors(servers)
    if servers.mirrors is not None:
        found["mirrors"] = mirrors(servers)
    if servers.sql is not None:
        found["queries"] = list(sql_sources(servers).values())
    return found


def _exported_schemas(registry: SchemaRegistry) -> dict[str, Any]:
    subjects = {
        subject: [registry.version(subject, number) for number in registry.versions(subject)]
        for subject in registry.subjects()
    }
    exported = {}
    # In the order of their ids, so that references exist, and a new registry counts the same ids.
    for subject, versions in sorted(subjects.items(), key=lambda item: min(each.id for each in item[1])):
        level = compatibility(registry, subject)
        exported[subject] = {
            **({"compatibility": level} if level else {}),
            "versions": [
                {
                    "type": each.type,
                    "schema": each.text,
                    **({"references": [ref._asdict() for ref in each.references]} if each.references else {}),
                }
                for each in versions
            ],
        }
    return exported


def _unless_disabled(ask: Callable[[], list[Any]]) -> list[Any]:
    """Return an empty list from brokers without an authorizer or SCRAM."""
    from ottla.protocol.errors import ErrorCode

    try:
        return ask()
    except ClientError as error:
        if error.code in (ErrorCode.SECURITY_DISABLED, ErrorCode.UNSUPPORTED_VERSION):
            return []
        raise


def _variable(user: str) -> str:
    return "OTTLA_PASSWORD_" + re.sub(r"\W", "_", user).upper()


def _word(value: Any) -> str:
    return str(value.name).lower().replace("_", "-")


def _acl_text(acl: Any) -> str:
    pattern, entry = acl
    prefix = "names that begin with " if _word(pattern.pattern_type) == "prefixed" else ""
    host = "" if entry.host == "*" else f" from {entry.host}"
    return (
        f"{_word(entry.permission)} {entry.principal} to {_word(entry.operation)} {_word(pattern.resource_type)} "
        f"{prefix}{pattern.name}{host}"
    )


def _key(entity: Mapping[str, str | None]) -> tuple[Any, ...]:
    return tuple(sorted((kind, name is None, name or "") for kind, name in entity.items()))


def _entity_text(entity: Mapping[str, str | None]) -> str:
    return " and ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity.items())


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
