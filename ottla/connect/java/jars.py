"""Finds the plugins in the jars of `plugin.path`, and Kafka's jars for them, without starting Java."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ottla.connect.errors import ConnectError

#: Directory of Kafka's jars: `libs` in the Kafka distribution.
LIBS_SETTING = "kafka.libs.path"

_INTERFACES = {
    "source": "source.SourceConnector",
    "sink": "sink.SinkConnector",
    "converter": "storage.Converter",
    "header_converter": "storage.HeaderConverter",
    "transformation": "transforms.Transformation",
    "predicate": "transforms.predicates.Predicate",
}
_SERVICES = {type: f"META-INF/services/org.apache.kafka.connect.{name}" for type, name in _INTERFACES.items()}
CONNECTORS = ("source", "sink")
#: Libraries that the worker provides to plugins: Connect's interfaces, the client, and logging.
_SHARED = re.compile(
    r"(connect-api|kafka-clients|slf4j-.*|jakarta\.ws\.rs-api|lz4-java|snappy-java|zstd-jni|log4j-.*)-\d.*\.jar"
)
#: Libraries that convert the worker's records. Plugins do not see them.
_JSON = re.compile(r"(connect-json|jackson-.*|jakarta\.activation.*)-\d.*\.jar")


@dataclass(frozen=True)
class JavaPlugin:
    class_name: str
    #: As in REST answers: source, sink, converter, … Empty if only loading the class can tell.
    type: str
    version: str
    jars: tuple[str, ...]


@dataclass(frozen=True)
class Libraries:
    """Kafka's jars: `shared` with all plugins, `json` for the worker, and `rest`.

    Each plugin loads a private copy of `rest` behind its own jars.
    """

    shared: tuple[str, ...]
    json: tuple[str, ...]
    rest: tuple[str, ...] = ()


def plugins(plugin_path: Sequence[str]) -> list[JavaPlugin]:
    found = []
    for jars in _locations(plugin_path):
        for jar in jars:
            for kind, service in _SERVICES.items():
                for name in _declared(jar, service):
                    found.append(JavaPlugin(name, kind, _version(jar), jars))
    return found


def find(name: str, plugin_path: Sequence[str], types: Sequence[str] = CONNECTORS) -> JavaPlugin | None:
    known = [each for each in plugins(plugin_path) if each.type in types]
    for each in known:
        if each.class_name == name:
            return each
    aliased = [each for each in known if name in _aliases(each)]
    if len({each.class_name for each in aliased}) == 1:
        return aliased[0]
    # Older plugins declare nothing, so search for the class file.
    entry = f"{name.replace('.', '/')}.class"
    for jars in (*_locations(plugin_path), *_undeclared(plugin_path)):
        for jar in jars:
            if "." in name and entry in _entries(jar):
                return JavaPlugin(name, "", _version(jar), jars)
    return None


def libraries(properties: Mapping[str, str], plugin_path: Sequence[str]) -> Libraries:
    """Return Kafka's own jars. Raises ConnectError if there are none."""
    given = [each.strip() for each in properties.get(LIBS_SETTING, "").split(",") if each.strip()]
    home = os.environ.get("KAFKA_HOME")
    places = [*given, *([f"{home}/libs"] if home else [])]
    jars = [str(jar) for place in places for jar in sorted(Path(place).glob("*.jar"))]
    rest = tuple(jar for jar in jars if not _SHARED.fullmatch(Path(jar).name))
    # A plugin that bundles all of them, like Debezium Server, is enough.
    jars += [jar for members in _locations(plugin_path) for jar in members]
    shared = _by_name(_SHARED, jars)
    json = _by_name(_JSON, jars)
    missing = [
        name
        for name, among in (("connect-api", shared), ("kafka-clients", shared), ("connect-json", json))
        if not any(Path(each).name.startswith(f"{name}-") for each in among)
    ]
    if missing:
        raise ConnectError(
            f"Plugins in Java need {' and '.join(missing)} of Apache Kafka: set {LIBS_SETTING} in the worker's "
            "properties to the directory libs of a Kafka distribution."
        )
    return Libraries(shared, json, rest)


def _by_name(pattern: re.Pattern[str], jars: Sequence[str]) -> tuple[str, ...]:
    """Return the first jar of each name, ignoring versions."""
    found: dict[str, str] = {}
    for jar in jars:
        name = Path(jar).name
        if pattern.fullmatch(name):
            found.setdefault(re.split(r"-\d", name, maxsplit=1)[0], jar)
    return tuple(found.values())


def _locations(plugin_path: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Split plugin.path into plugins like Kafka: each jar, or directory with jars, in a path directory is a plugin."""
    for place in map(Path, plugin_path):
        if place.is_file() and place.suffix == ".jar":
            yield (str(place),)
            continue
        try:
            entries = sorted(place.iterdir())
        except OSError:
            continue
        own = tuple(str(each) for each in entries if each.suffix == ".jar")
        for jar in own:
            # Adjacent jars may belong together: each sees the others, but searches itself first.
            if any(_declared(jar, service) for service in _SERVICES.values()):
                yield (jar, *(each for each in own if each != jar))
        for each in entries:
            if each.is_dir():
                jars = tuple(sorted(map(str, each.rglob("*.jar"))))
                if jars:
                    yield jars


def _undeclared(plugin_path: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the jars beside each other in a path directory, each with the others behind it."""
    for place in map(Path, plugin_path):
        own = sorted(map(str, place.glob("*.jar")))
        for jar in own:
            yield (jar, *(each for each in own if each != jar))


@cache
def _entries(jar: str) -> frozenset[str]:
    try:
        with zipfile.ZipFile(jar) as archive:
            return frozenset(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return frozenset()


@cache
def _declared(jar: str, service: str) -> tuple[str, ...]:
    if service not in _entries(jar):
        return ()
    with zipfile.ZipFile(jar) as archive:
        text = archive.read(service).decode("utf-8", "replace")
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


def _version(jar: str) -> str:
    found = re.search(r"-(\d[\w.]*?)\.jar$", Path(jar).name)
    return "" if found is None else found[1]


def _aliases(plugin: JavaPlugin) -> set[str]:
    simple = plugin.class_name.rpartition(".")[2]
    suffix = "Connector" if plugin.type in CONNECTORS else plugin.type.title().replace("_", "")
    return {simple, simple.removesuffix(suffix), simple.replace("$", "")}
