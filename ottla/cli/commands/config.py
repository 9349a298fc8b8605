"""`ottla config …`"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli import output
from ottla.cli.errors import JobError
from ottla.cli.options import file_option, json_option

if TYPE_CHECKING:
    from ottla.broker.configuration import Setting

# `ottla config …`

config_file_option = file_option(
    "--config",
    "-c",
    "config_file",
    help="Show the values of a broker with this server.properties, and the source of each.",
)


@click.group(
    invoke_without_command=True, short_help="Explain broker settings, and check a server.properties."
)
@config_file_option
@json_option("Print JSON instead of text.")
@click.pass_context
def config(context: click.Context, config_file: Path | None, as_json: bool) -> None:
    """Explain every setting of a broker, or check a server.properties.

    \b
    Examples:
      ottla config
      ottla config explain log.retention.hours 'log.segment.*'
      ottla config explain --config config/server.properties num.partitions
      ottla config check config/server.properties
      ottla config init

    `ottla configs` shows and changes the settings of a cluster that runs.
    """
    if context.invoked_subcommand is None:
        _explain((), config_file, as_json)
    elif config_file is not None or as_json:
        raise click.UsageError("Options of a subcommand come after its name.")


@config.command()
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@config_file_option
@json_option("Print JSON instead of text.")
def explain(keys: tuple[str, ...], config_file: Path | None, as_json: bool) -> None:
    """Explain settings: type, default, valid values, and whether a running broker accepts changes.

    KEY may contain *. Without KEY, explains all settings.
    """
    _explain(keys, config_file, as_json)


@config.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@json_option("Print JSON instead of text.")
def check(file: Path, as_json: bool) -> None:
    """Check a server.properties without starting a broker.

    Warns about unknown settings. Reports invalid values as errors; the exit code is then 1.
    """
    from ottla.broker.configuration import check_file

    checked = check_file(file)
    if as_json:
        output.print_json({"file": str(file), "errors": checked.errors, "warnings": checked.warnings})
    else:
        for warning in checked.warnings:
            output.warn(warning)
        for error in checked.errors:
            output.fail(error)
        if not checked.errors:
            output.done(f"{file}: no errors.")
    if checked.errors:
        click.get_current_context().exit(1)


@config.command()
@click.argument("directory", default="config", type=click.Path(file_okay=False, path_type=Path))
def init(directory: Path) -> None:
    """Write Kafka's classic files, from server.properties to zookeeper.properties, into DIRECTORY (config).

    Existing files stay as they are.
    """
    import shutil

    written = 0
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for source in sorted(shipped_folder("config").glob("*.properties")):
            if not (directory / source.name).exists():
                shutil.copyfile(source, directory / source.name)
                written += 1
    except OSError as error:
        raise JobError(f"{directory} cannot be written: {error.strerror}.") from None
    output.done(f"{directory}: {written} {'file' if written == 1 else 'files'} written.")
    click.echo(f"Next: zookeeper-server-start -daemon {directory}/zookeeper.properties")
    click.echo(f"      kafka-server-start {directory}/server.properties")


def _explain(keys: tuple[str, ...], config_file: Path | None, as_json: bool) -> None:
    from ottla.broker.configuration import ConfigError, explain

    try:
        settings = explain(config_file)
    except ConfigError as error:
        raise JobError(str(error)) from None
    names = [setting.name for setting in settings]
    unknown = [key for key in keys if not any(fnmatchcase(name, key) for name in names)]
    chosen = [each for each in settings if not keys or any(fnmatchcase(each.name, key) for key in keys)]
    if as_json:
        output.print_json(chosen)
    else:
        for number, setting in enumerate(chosen):
            if number:
                click.echo()
            _print(setting)
    for key in unknown:
        output.fail(_unknown(key, names))
    if unknown:
        click.get_current_context().exit(1)


def _unknown(key: str, names: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(key, names, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"'{key}' is not a setting of a broker.{hint}"


def _print(setting: Setting) -> None:
    def line(label: str, text: str) -> None:
        click.echo("  " + click.style(label.ljust(9), dim=True) + text)

    click.secho(setting.name, fg="cyan", bold=True)
    click.echo(f"  {setting.documentation}")
    line("Type", setting.type)
    alone = "" if setting.default_alone is None else f" ({setting.default_alone} for a broker on its own)"
    line("Default", f"{_shown(setting.default)}{alone}")
    line("Valid", setting.valid)
    line("Dynamic", f"yes, {setting.update_mode}" if setting.dynamic else "no, it is read at the start")
    if not setting.used:
        line("Effect", "none: Ottla does not use it")
    if setting.topic_settings:
        line("Topics", f"the default of {', '.join(setting.topic_settings)}")
    if setting.source is not None:
        line("Value", f"{_shown(setting.value)} ({setting.source})")


def _shown(value: str | None) -> str:
    return "none" if value is None else value or "(empty)"


# Files that come with Ottla: the classic configuration files, the examples.


def shipped_folder(name: str) -> Path:
    """Return the folder: beside the package in a checkout, inside of it when it was installed."""
    package = Path(__file__).parents[2]
    is_checkout = (package.parent / "pyproject.toml").is_file()
    folder = (package.parent if is_checkout else package) / name
    if not folder.is_dir():
        raise JobError(f"The folder {name} is not part of this installation of Ottla: install it again.")
    return folder
