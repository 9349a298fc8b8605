"""Where tables are without any settings."""

from __future__ import annotations

import os

WAREHOUSE_VARIABLE = "OTTLA_WAREHOUSE"
DEFAULT_WAREHOUSE = "ottla-tables"


def default_warehouse() -> str:
    return os.environ.get(WAREHOUSE_VARIABLE) or DEFAULT_WAREHOUSE
