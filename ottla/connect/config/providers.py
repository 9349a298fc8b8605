"""Config providers (KIP-297), which resolve variables such as `${file:/etc/secrets.properties:password}`.

A worker names its providers:

    config.providers=file,env
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/secrets
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    config.providers.env.param.allowlist.pattern=CONNECT_.*

Resolved values stay in memory. Topics, logs and messages contain only the `${…}` variable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.connect.config.config_def import ConfigError, ConfigType, invalid, parse_value
from ottla.connect.converters.loading import load_class
from ottla.connect.data.java_regex import InvalidPattern, compile_java
from ottla.properties import PropertiesError, decode_properties, parse_properties

_HERE = "ottla.connect.config.providers"
_KAFKA = "org.apache.kafka.common.config.provider"

#: Our implementation of each Kafka provider class.
PLUGINS = {
    f"{_KAFKA}.FileConfigProvider": f"{_HERE}:FileConfigProvider",
    f"{_KAFKA}.DirectoryConfigProvider": f"{_HERE}:DirectoryConfigProvider",
    f"{_KAFKA}.EnvVarConfigProvider": f"{_HERE}:EnvVarConfigProvider",
}

#: Kafka's own pattern: a provider, an optional path, and a key.
_VARIABLE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")


class ConfigProvider:
    """Return values of a path for the requested `keys`, omitting missing keys."""

    def configure(self, config: Mapping[str, str]) -> None: ...

    def get(self, path: str, keys: frozenset[str]) -> Mapping[str, str]:
        raise NotImplementedError

    def close(self) -> None: ...

    @property
    def missing_limit(self) -> str | None:
        """Return the unset setting that would restrict this provider, or None."""
        return None


class _AllowedPaths:
    """Without `allowed.paths` every path is allowed, as in Kafka. Links out of an allowed directory are rejected."""

    def __init__(self, text: str | None) -> None:
        listed = [each for each in parse_value("allowed.paths", text, ConfigType.LIST) or [] if each]
        self._paths: list[Path] | None = None
        if listed:
            self._paths = []
            for each in listed:
                path = Path(each)
                if not path.is_absolute():
                    raise ConfigError(f"Path {each} is not absolute")
                if not path.exists():
                    raise ConfigError(f"Path {each} does not exist")
                self._paths.append(path.resolve())

    @property
    def missing_limit(self) -> str | None:
        return "allowed.paths" if self._paths is None else None

    def allowed(self, text: str) -> Path | None:
        path = Path(text).resolve()
        if self._paths is None or any(path == each or each in path.parents for each in self._paths):
            return path
        return None


class FileConfigProvider(ConfigProvider):
    """`${file:/path/to.properties:key}`: a value from a properties file."""

    def configure(self, config: Mapping[str, str]) -> None:
        self._paths = _AllowedPaths(config.get("allowed.paths"))

    @property
    def missing_limit(self) -> str | None:
        return self._paths.missing_limit

    def get(self, path: str, keys: frozenset[str]) -> Mapping[str, str]:
        allowed = self._paths.allowed(path) if path else None
        if allowed is None:  # Kafka leaves the variable unresolved
            return {}
        try:
            read = parse_properties(decode_properties(allowed.read_bytes()))
        except (OSError, PropertiesError):
            raise ConfigError(f"Could not read properties from file {path}") from None
        values = {each.key: each.value for each in read}
        return {key: values[key] for key in keys if key in values}


class DirectoryConfigProvider(ConfigProvider):
    """`${directory:/path:file}`: the contents of a file in a directory, as Kubernetes mounts secrets."""

    def configure(self, config: Mapping[str, str]) -> None:
        self._paths = _AllowedPaths(config.get("allowed.paths"))

    @property
    def missing_limit(self) -> str | None:
        return self._paths.missing_limit

    def get(self, path: str, keys: frozenset[str]) -> Mapping[str, str]:
        directory = self._paths.allowed(path) if path else None
        if directory is None or not directory.is_dir():
            return {}
        found = {}
        for key in keys:
            if os.sep in key or key in ("", ".", ".."):
                continue
            file = self._paths.allowed(str(directory / key))
            if file is None:  # a link out of the directory
                continue
            try:
                if file.is_file():
                    found[key] = file.read_text()
            except OSError:
                raise ConfigError(f"Could not read file {file} for property {key}") from None
        return found


class EnvVarConfigProvider(ConfigProvider):
    """`${env:NAME}`: an environment variable of the worker."""

    def configure(self, config: Mapping[str, str]) -> None:
        text = config.get("allowlist.pattern")
        try:
            self._pattern = None if text is None else compile_java(text)
        except InvalidPattern:
            raise ConfigError(f"Could not parse allowlist.pattern: {text}") from None

    @property
    def missing_limit(self) -> str | None:
        return "allowlist.pattern" if self._pattern is None else None

    def get(self, path: str, keys: frozenset[str]) -> Mapping[str, str]:
        if path:
            raise ConfigError(f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'")
        return {
            key: os.environ[key]
            for key in keys
            if key in os.environ and (self._pattern is None or self._pattern.fullmatch(key))
        }


class ConfigProviders:
    """The providers configured in a worker."""

    def __init__(self, providers: Mapping[str, ConfigProvider]) -> None:
        self._providers = providers

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> ConfigProviders:
        """Raises ConfigError."""
        names = [
            each for each in parse_value("config.providers", config.get("config.providers"), ConfigType.LIST) or []
            if each
        ]  # fmt: skip
        return cls({name: _provider(name, config) for name in names})

    def __bool__(self) -> bool:
        return bool(self._providers)

    def resolved(self, config: Mapping[str, str]) -> dict[str, str]:
        """Resolve the variables in a config. Variables with an unknown provider or a missing key stay unresolved.

        Raises ConfigError.
        """
        if not self._providers:
            return dict(config)
        wanted: dict[tuple[str, str], set[str]] = {}
        for value in config.values():
            for found in _VARIABLE.finditer(value or ""):
                if found[1] in self._providers:
                    wanted.setdefault((found[1], found[3] or ""), set()).add(found[4])
        known = {
            (name, path, key): value
            for (name, path), keys in wanted.items()
            for key, value in self._providers[name].get(path, frozenset(keys)).items()
        }

        def replaced(found: re.Match[str]) -> str:
            return known.get((found[1], found[3] or "", found[4]), found[0])

        return {name: _VARIABLE.sub(replaced, value) if value else value for name, value in config.items()}

    def unlimited(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """Return errors for settings that use an unrestricted provider, by setting name.

        Such a provider would expose everything that the worker can read.
        """
        found: dict[str, list[str]] = {}
        for name, value in config.items():
            for variable in _VARIABLE.finditer(value or ""):
                provider = self._providers.get(variable[1])
                if provider is not None and provider.missing_limit is not None:
                    found[name] = [
                        f"Invalid value {value} for configuration {name}: Connectors over REST may use the config "
                        f"provider {variable[1]} only within limits. Set config.providers.{variable[1]}.param."
                        f"{provider.missing_limit} on the worker."
                    ]
        return found

    def uses_variables(self, config: Mapping[str, str]) -> bool:
        return any(
            found[1] in self._providers
            for value in config.values()
            for found in _VARIABLE.finditer(value or "")
        )

    def close(self) -> None:
        for provider in self._providers.values():
            provider.close()


def _provider(name: str, config: Mapping[str, str]) -> ConfigProvider:
    setting = f"config.providers.{name}.class"
    class_name = config.get(setting)
    if not class_name:
        raise ConfigError(f'Missing required configuration "{setting}" which has no default value.')
    found: Any = load_class(class_name.strip(), PLUGINS, "ConfigProvider")
    if found is None:
        raise invalid(setting, class_name, f"Class {class_name} could not be found.")
    if not (isinstance(found, type) and issubclass(found, ConfigProvider)):
        raise invalid(setting, class_name, f"{class_name} is not a config provider.")
    prefix = f"config.providers.{name}.param."
    provider = found()
    provider.configure(
        {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
    )
    return provider
