from __future__ import annotations

import pytest

from ottla.broker.remote_log.orphans import gave_up_remote_records


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, False),  # perhaps they have not arrived yet
        ({"remote.storage.enable": "true"}, False),
        ({"remote.storage.enable": "true", "remote.log.delete.on.disable": "true"}, False),
        ({"remote.storage.enable": "false"}, False),
        ({"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}, True),
        ({"remote.log.delete.on.disable": "true"}, True),
    ],
)
def test_remote_records_are_given_up_explicitly(configs: dict[str, str], expected: bool) -> None:
    assert gave_up_remote_records(configs) is expected
