"""Feature levels of Kafka's releases, and their names."""

from __future__ import annotations

from ottla.cli.errors import JobError

METADATA_VERSION = "metadata.version"
# Levels of metadata.version from 7 on, by the names that Kafka 4.4 knows; the last is for releases to come.
_LOWEST = 7
_RELEASES = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1",
    "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0",
    "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0", "4.4-IV1", "4.4-IV2",
    "4.5-IV0",
)  # fmt: skip
LATEST = "4.4-IV2"
# Feature → its levels above 0, each with the release that begins to use it.
_LEVELS = {
    "kraft.version": {1: "3.9-IV0"},
    "transaction.version": {1: "4.0-IV2", 2: "4.0-IV2"},
    "group.version": {1: "4.0-IV0"},
    "eligible.leader.replicas.version": {1: "4.1-IV0"},
    "share.version": {1: "4.2-IV0", 2: "4.4-IV0"},
    "streams.version": {1: "4.2-IV1"},
}
_DEPENDENCIES = {("eligible.leader.replicas.version", 1): {METADATA_VERSION: 23}}


def level_name(feature: str, level: int) -> str:
    if feature != METADATA_VERSION:
        return str(level)
    known = _LOWEST <= level < _LOWEST + len(_RELEASES)
    return _RELEASES[level - _LOWEST] if known else f"UNKNOWN {level}"


def metadata_level(release: str) -> int:
    """`release` is a level such as 4.1-IV0, or a release such as 4.1 for its last level."""
    short = ".".join(release.split(".")[:2])
    stable = _RELEASES[: _RELEASES.index(LATEST) + 1]
    matching = [name for name in stable if short in (name, name.partition("-")[0])]
    if not matching:
        raise JobError(
            f"Unknown metadata.version '{release}'. Supported metadata.version are: {', '.join(_RELEASES)}"
        )
    return _LOWEST + _RELEASES.index(matching[-1])


def levels_of_release(release: str) -> dict[str, int]:
    metadata = metadata_level(release)
    levels = {METADATA_VERSION: metadata}
    for feature, since in _LEVELS.items():
        levels[feature] = max(
            (level for level, name in since.items() if metadata_level(name) <= metadata), default=0
        )
    return levels


def dependencies(feature: str, level: int) -> dict[str, int]:
    if feature != METADATA_VERSION:
        if feature not in _LEVELS:
            raise JobError(f"Unknown feature: {feature}")
        if level != 0 and level not in _LEVELS[feature]:
            raise JobError(f"No feature:{feature} with feature level {level}")
    elif not _LOWEST <= level < _LOWEST + len(_RELEASES):
        raise JobError(f"No metadata.version with feature level {level}")
    return _DEPENDENCIES.get((feature, level), {})
