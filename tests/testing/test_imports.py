"""Promise: tests start quickly. Importing the kit loads only the modules in use."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import ottla.testing


def loaded_by(statement: str) -> set[str]:
    program = f"import json, sys\n{statement}\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    return set(json.loads(done.stdout))


def test_the_package_alone_loads_none_of_its_modules() -> None:
    loaded = loaded_by("import ottla.testing")
    assert not {name for name in loaded if name.startswith("ottla.")} - {"ottla.testing"}
    assert "asyncio" not in loaded


def test_one_broker_needs_nothing_of_clusters_clients_and_compiled_code() -> None:
    loaded = loaded_by("from ottla.testing import Broker")
    unwanted = {
        "kazoo",
        "numpy",
        "numba",
        "confluent_kafka",
        "ottla.client",
        "ottla.jvm",
        "ottla.testing.cluster",
    }
    assert not loaded & unwanted


@pytest.mark.parametrize("name", ottla.testing.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(ottla.testing, name)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Kluster'"):
        _ = ottla.testing.Kluster
