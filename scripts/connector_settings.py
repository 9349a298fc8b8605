"""Writes the tables of settings into the pages of connectors, from the definitions that configs are checked with.

    python scripts/connector_settings.py            # which pages are not up to date
    python scripts/connector_settings.py --write    # brings them up to date

A table stands between `<!-- settings: module:Class -->` and `<!-- end -->`.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

from ottla.connect.config.config_def import ConfigDef, ConfigKey, ConfigType

PAGES = Path(__file__).parents[1] / "docs" / "reference" / "connect"
_TABLE = re.compile(r"(<!-- settings: (?P<target>[\w.]+:\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def up_to_date(page: str) -> str:
    return _TABLE.sub(lambda found: found[1] + table(_definition(found["target"])) + found[3], page)


def _definition(target: str) -> ConfigDef:
    module, _, name = target.partition(":")
    found = getattr(importlib.import_module(f"ottla.connect.connectors.{module}"), name).config_def
    assert isinstance(found, ConfigDef)
    return found


def table(definition: ConfigDef) -> str:
    keys = sorted(definition.keys.values(), key=lambda key: not key.is_required)
    rows = "".join(f"| `{key.name}` | {_default(key)} | {_text(key)} |\n" for key in keys)
    return f"| setting | default | |\n|---|---|---|\n{rows}"


def _text(key: ConfigKey) -> str:
    return key.documentation.replace("|", "\\|")


def _default(key: ConfigKey) -> str:
    if key.is_required:
        return "**required**"
    default = key.default
    if default is None or default == "" or default == []:
        return ""
    if key.type is ConfigType.BOOLEAN:
        return f"`{str(default).lower()}`"
    if isinstance(default, list):
        return f"`{','.join(map(str, default))}`"
    if isinstance(default, str) and default.isspace():
        return "new line"
    return f"`{default}`".replace("|", "\\|")


def main() -> int:
    write = "--write" in sys.argv[1:]
    late = 0
    for path in sorted(PAGES.glob("*.md")):
        old = path.read_text()
        new = up_to_date(old)
        if new != old:
            late += 1
            print(f"{path.name}: {'written' if write else 'not up to date'}")
            if write:
                path.write_text(new)
    return 0 if write or not late else 1


if __name__ == "__main__":
    raise SystemExit(main())
