"""A config only refers to secrets, which stay in their store."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.connect.config.config_def import ConfigError
from ottla.connect.config.providers import ConfigProviders

KAFKA = "org.apache.kafka.common.config.provider."


def providers(**settings: str) -> ConfigProviders:
    config = {
        "config.providers": "file,directory,env",
        "config.providers.file.class": KAFKA + "FileConfigProvider",
        "config.providers.directory.class": KAFKA + "DirectoryConfigProvider",
        "config.providers.env.class": KAFKA + "EnvVarConfigProvider",
    }
    return ConfigProviders.from_config(
        config | {name.replace("__", "."): each for name, each in settings.items()}
    )


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.properties"
    path.write_text("user = ada\npassword=a\\u0062c:d\n")
    return path


def test_a_value_of_a_properties_file(secrets: Path) -> None:
    config = {"url": f"jdbc:x?user=${{file:{secrets}:user}}&p=${{file:{secrets}:password}}", "tasks.max": "1"}
    assert providers().resolved(config) == {"url": "jdbc:x?user=ada&p=abc:d", "tasks.max": "1"}


def test_a_file_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret")
    resolved = providers().resolved(
        {"t": f"${{directory:{tmp_path}:token}}", "u": f"${{directory:{tmp_path}:..}}"}
    )
    assert resolved == {"t": "s3cret", "u": f"${{directory:{tmp_path}:..}}"}


def test_a_variable_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_PASSWORD", "x")
    monkeypatch.setenv("OTHER", "y")
    config = {"a": "${env:CONNECT_PASSWORD}", "b": "${env:OTHER}"}
    assert providers().resolved(config) == {"a": "x", "b": "y"}
    restricted = providers(config__providers__env__param__allowlist__pattern="CONNECT_.*")
    assert restricted.resolved(config) == {"a": "x", "b": "${env:OTHER}"}


def test_what_is_not_there_stays_as_it_is(secrets: Path) -> None:
    config = {"a": f"${{file:{secrets}:nothing}}", "b": "${vault:x:y}", "c": "${not a variable}", "d": "$1"}
    assert providers().resolved(config) == config


def test_paths_that_are_not_allowed_are_not_read(secrets: Path, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "ok.properties").write_text("k=v\n")
    (allowed / "link").symlink_to(secrets)
    found = providers(
        config__providers__file__param__allowed__paths=str(allowed),
        config__providers__directory__param__allowed__paths=str(allowed),
    )
    config = {
        "ok": f"${{file:{allowed}/ok.properties:k}}",
        "outside": f"${{file:{secrets}:user}}",
        "dots": f"${{file:{allowed}/../secrets.properties:user}}",
        "link": f"${{file:{allowed}/link:user}}",
        "linked": f"${{directory:{allowed}:link}}",
    }
    assert found.resolved(config) == config | {"ok": "v"}


def test_a_file_that_cannot_be_read_is_an_error_without_its_contents(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Could not read properties from file"):
        providers().resolved({"a": f"${{file:{tmp_path}/none:k}}"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"config__providers__env__class": "what.Ever"}, "Class what.Ever could not be found"),
        ({"config__providers__file__param__allowed__paths": "relative"}, "Path relative is not absolute"),
        (
            {"config__providers__file__param__allowed__paths": "/no/such/dir"},
            "Path /no/such/dir does not exist",
        ),
    ],
)
def test_a_provider_that_cannot_be_made_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        providers(**settings)
