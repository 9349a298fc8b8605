"""The transforms of a connector in order, each with an optional predicate that selects its records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.connect.config.config_def import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    Importance,
    invalid,
    parse_value,
)
from ottla.connect.converters.loading import load_class, load_elsewhere
from ottla.connect.data.record import ConnectRecord
from ottla.connect.errors import ConnectError
from ottla.connect.plugins import PluginKind
from ottla.connect.transforms.base import C, Predicate, Transform
from ottla.connect.transforms.functions import FunctionTransform

Config = Mapping[str, str]
P = TypeVar("P", Transform, Predicate)


@dataclass(slots=True)
class Stage:
    alias: str
    #: As written in the config.
    class_name: str
    transform: Transform
    predicate: Predicate | None = None
    negate: bool = False


class Chain:
    """Not thread-safe."""

    def __init__(self, stages: list[Stage]) -> None:
        self.stages = stages
        self.takes_columns = all(
            each.transform.takes_columns and (each.predicate is None or each.predicate.takes_columns)
            for each in stages
        )
        #: The running stage, or the failed stage after an error.
        self.current: Stage | None = None

    @classmethod
    def from_config(cls, config: Config) -> Chain:
        """Raises ConfigError."""
        predicates = {alias: _predicate(alias, config) for alias in aliases(config, "predicates")}
        stages = []
        for alias in aliases(config, "transforms"):
            prefix = f"transforms.{alias}."
            transform = _transform(alias, config)
            transform.configure(
                _own_settings(config, prefix, ("type", "predicate", "negate", "plugin.version"))
            )
            named = config.get(f"{prefix}predicate")
            if named and named not in predicates:
                raise invalid(f"{prefix}predicate", named, f"There is no predicate {named} in predicates.")
            negate = parse_value(
                f"{prefix}negate", config.get(f"{prefix}negate", "false"), ConfigType.BOOLEAN
            )
            stages.append(
                Stage(
                    alias,
                    config[f"{prefix}type"].strip(),
                    transform,
                    predicates[named] if named else None,
                    bool(negate),
                )
            )
        return cls(stages)

    def __bool__(self) -> bool:
        return bool(self.stages)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return None if a transform drops the record."""
        for stage in self.stages:
            self.current = stage
            predicate = stage.predicate
            if predicate is None or predicate.test(record) != stage.negate:
                applied = stage.transform.apply(record)
                if applied is None:
                    self.current = None
                    return None
                record = applied
        self.current = None
        return record

    def apply_columns(self, columns: C) -> C:
        """Transform columns. If this raises any exception, apply the transforms to the same records one by one."""
        for stage in self.stages:
            if stage.predicate is None or stage.predicate.test_columns(columns) != stage.negate:
                columns = stage.transform.apply_columns(columns)
        return columns

    def apply_all(self, records: Iterable[ConnectRecord]) -> list[ConnectRecord]:
        if not self.stages:
            return list(records)
        applied = map(self.apply, records)
        return [each for each in applied if each is not None]

    def close(self) -> None:
        for stage in self.stages:
            stage.transform.close()
            if stage.predicate is not None:
                stage.predicate.close()


def aliases(config: Config, setting: str) -> list[str]:
    return [each for each in parse_value(setting, config.get(setting), ConfigType.LIST) or [] if each]


def _own_settings(config: Config, prefix: str, without: tuple[str, ...]) -> dict[str, str]:
    own = {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
    return {name: value for name, value in own.items() if name not in without}


def transform_of(name: str, setting: str) -> Transform:
    """Find a transform by Java name, alias, or `module:attribute` of a Python class or function. Not yet configured."""
    from ottla.connect.transforms import PLUGINS

    name = name.strip()
    found = load_class(name, PLUGINS, "") or load_elsewhere(name, setting, PluginKind.TRANSFORMATION)
    if found is None:
        raise invalid(setting, name, f"Class {name} could not be found.")
    if isinstance(found, type) and issubclass(found, Transform):
        return _made(found, setting, name)
    if callable(found) and not isinstance(found, type):
        return FunctionTransform(found)
    raise invalid(setting, name, "Not a Transformation")


def _made(kind: type[P], setting: str, name: str) -> P:
    try:
        return kind()
    except ConnectError as error:  # a class in a jar that does not load
        raise invalid(setting, name, error.message) from None


def _transform(alias: str, config: Config) -> Transform:
    setting = f"transforms.{alias}.type"
    return transform_of(_required(config, setting), setting)


def _predicate(alias: str, config: Config) -> Predicate:
    predicate = _new_predicate(alias, config)
    predicate.configure(_own_settings(config, f"predicates.{alias}.", ("type", "plugin.version")))
    return predicate


def _new_predicate(alias: str, config: Config) -> Predicate:
    from ottla.connect.transforms import PREDICATES

    setting = f"predicates.{alias}.type"
    name = _required(config, setting)
    name = name.strip()
    found = load_class(name, PREDICATES, "") or load_elsewhere(name, setting, PluginKind.PREDICATE)
    if found is None:
        raise invalid(setting, name, f"Class {name} could not be found.")
    if not (isinstance(found, type) and issubclass(found, Predicate)):
        raise invalid(setting, name, "Not a Predicate")
    return _made(found, setting, name)


def _required(config: Config, setting: str) -> str:
    name = config.get(setting)
    if name is None:
        raise ConfigError(f'Missing required configuration "{setting}" which has no default value.')
    return name


# Setting definitions


def add_transform_settings(definition: ConfigDef, alias: str, config: Config) -> None:
    prefix, group = f"transforms.{alias}.", f"Transforms: {alias}"
    about = {"group": group, "width": "LONG"}
    definition.define(
        f"{prefix}type",
        ConfigType.CLASS,
        importance=Importance.HIGH,
        documentation=f"The class or Python function of the transform '{alias}'.",
        order=0,
        display_name=f"Transformation type for {alias}",
        validator=lambda name, value: transform_of(str(value), name) and None,
        **about,
    )
    definition.define(
        f"{prefix}plugin.version",
        ConfigType.STRING,
        None,
        Importance.HIGH,
        f"The version of the transform '{alias}'.",
        order=1,
        display_name=f"Transformation version for {alias}",
        **about,
    )
    known = aliases(config, "predicates")

    def is_known(name: str, value: Any) -> None:
        if value and value not in known:
            raise invalid(name, value, f"There is no predicate {value} in predicates.")

    own = ConfigDef()
    try:
        transform = _transform(alias, config)
        taken = transform.definition if isinstance(transform, FunctionTransform) else transform.config_def
        own.keys.update(taken.keys)
    except ConfigError:  # reported for `type`
        pass
    for key in (
        ConfigKey(
            "predicate",
            ConfigType.STRING,
            None,
            Importance.MEDIUM,
            "The name of a predicate: the transform is applied to the records that it is true of.",
            validator=is_known,
        ),
        ConfigKey(
            "negate",
            ConfigType.BOOLEAN,
            False,
            Importance.MEDIUM,
            "Whether it is applied to all other records instead.",
        ),
    ):
        own.keys.setdefault(key.name, key)
    _embed(definition, own, prefix, group)


def add_predicate_settings(definition: ConfigDef, alias: str, config: Config) -> None:
    prefix, group = f"predicates.{alias}.", f"Predicates: {alias}"

    def exists(name: str, value: Any) -> None:
        _new_predicate(alias, {name: str(value)})

    definition.define(
        f"{prefix}type",
        ConfigType.CLASS,
        importance=Importance.HIGH,
        documentation=f"The class of the predicate '{alias}'.",
        order=0,
        display_name=f"Predicate type for {alias}",
        group=group,
        width="LONG",
        validator=exists,
    )
    definition.define(
        f"{prefix}plugin.version",
        ConfigType.STRING,
        None,
        Importance.HIGH,
        f"The version of the predicate '{alias}'.",
        order=1,
        display_name=f"Predicate version for {alias}",
        group=group,
        width="LONG",
    )
    try:
        predicate = _new_predicate(alias, config)
    except ConfigError:  # reported for `type`
        return
    _embed(definition, predicate.config_def, prefix, group)


#: Order of a class's first setting in its group.
_AFTER_TYPE_AND_VERSION = 2


def _embed(definition: ConfigDef, own: ConfigDef, prefix: str, group: str) -> None:
    """Add settings in Kafka's order: required settings first, then by importance and name."""
    ranks = {importance: rank for rank, importance in enumerate(Importance)}

    def place(key: ConfigKey) -> tuple[bool, int, str]:
        return not key.is_required, ranks[key.importance], key.name

    for order, key in enumerate(sorted(own.keys.values(), key=place), _AFTER_TYPE_AND_VERSION):
        definition.define(
            f"{prefix}{key.name}",
            key.type,
            key.default,
            key.importance,
            key.documentation,
            validator=key.validator,
            group=group,
            order=order,
            width=key.width,
            display_name=key.display_name or key.name,
        )
