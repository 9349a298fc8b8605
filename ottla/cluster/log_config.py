"""From a topic's configuration to the settings of its logs."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.log.config import LogConfig
from ottla.metadata.broker_config import BrokerConfig
