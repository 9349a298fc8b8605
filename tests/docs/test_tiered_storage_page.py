"""The commands of the page on tiered storage run as printed, beside a broker with the settings of the page."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from ottla.properties import parse_properties
from ottla.testing import Broker
from tests.fork_server import run_forked

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "keep-old-segments-in-object-storage.md").read_text()
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)


def test_the_commands_run(tmp_path: Path) -> None:
    [properties] = re.findall(r"```properties\n(.*?)```", PAGE, re.DOTALL)
    config = {each.key: each.value for each in parse_properties(properties)}
    config["ottla.remote.storage.uri"] = f"file://{tmp_path}"
    with Broker(config=config) as broker:
        answers = []
        for line in "".join(BLOCKS).strip().splitlines():
            done = run_forked(
                *shlex.split(line.replace("localhost:9092", broker.bootstrap_servers)), timeout=60
            )
            assert done.returncode == 0, (line, done.stderr)
            answers.append(done.stdout.decode().strip())
        assert answers == ["Created topic clicks.", "clicks:0:0", "clicks:0:0", ""]


def test_the_settings_of_the_page_exist() -> None:
    from ottla.metadata.configs.broker_config_table import BROKER_CONFIGS
    from ottla.metadata.configs.topic_configs import TOPIC_CONFIGS

    tables = PAGE.partition("## Tune it")[2].partition("## Limits")[0]
    for name, default in re.findall(r"^\| `([a-z.]+)` \| (\d+) \|", tables, re.MULTILINE):
        assert BROKER_CONFIGS[name].default == default, name
    for name in re.findall(r"`((?:remote|local)\.[a-z.]+\.(?:enable|disable|ms|bytes))`", PAGE):
        assert name in TOPIC_CONFIGS or name in BROKER_CONFIGS, name
