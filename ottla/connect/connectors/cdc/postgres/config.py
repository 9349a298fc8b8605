"""Settings of the PostgreSQL connector, with Debezium's names and defaults."""

from __future__ import annotations

import re
from typing import Any

from ottla.connect.config.config_def import ConfigType, Importance, at_least, invalid, one_of
from ottla.connect.connectors.cdc.config import common_settings, snapshot_mode, time_precision

SNAPSHOT_MODES = ("initial", "initial_only", "always", "never", "no_data", "when_needed")


def _slot_name(name: str, value: Any) -> None:
    if not re.fullmatch(r"[a-z0-9_]{1,63}", value):
        raise invalid(
            name, value, "Names of replication slots have small letters, digits and _ only, at most 63."
        )


def _pgoutput(name: str, value: Any) -> None:
    if value != "pgoutput":
        raise invalid(name, value, "Only pgoutput is supported, which every PostgreSQL since 10 has.")


def _source_only(name: str, value: Any) -> None:
    if any(each != "source" for each in value):
        raise invalid(name, ",".join(value), "Signals come from the signalling table only: use source.")


POSTGRES_CONFIG = snapshot_mode(
    time_precision(common_settings(port=5432, schemas="schema", database_required=True), "adaptive"),
    *SNAPSHOT_MODES,
)
for _name, _type, _default, _text, _check in (
    ("slot.name", ConfigType.STRING, "debezium", "Replication slot. Each connector needs its own.", _slot_name),
    ("slot.drop.on.stop", ConfigType.BOOLEAN, False, "Drop the slot when the connector stops.", None),
    ("plugin.name", ConfigType.STRING, "pgoutput", "The output plugin.", _pgoutput),
    ("publication.name", ConfigType.STRING, "dbz_publication", "Publication to read.", None),
    ("publication.autocreate.mode", ConfigType.STRING, "all_tables",
        "Creation of a missing publication.",
        one_of("all_tables", "disabled", "filtered", "no_tables")),
    ("database.sslmode", ConfigType.STRING, "prefer", "TLS mode, like libpq's sslmode.",
        one_of("disable", "allow", "prefer", "require", "verify-ca", "verify-full")),
    ("database.sslcert", ConfigType.STRING, "", "The client's certificate.", None),
    ("database.sslkey", ConfigType.STRING, "", "The client's key.", None),
    ("database.sslrootcert", ConfigType.STRING, "", "CA certificates to trust.", None),
    ("interval.handling.mode", ConfigType.STRING, "numeric", "numeric (microseconds) or string.",
        one_of("numeric", "string")),
    ("money.fraction.digits", ConfigType.SHORT, 2, "Decimal places of money columns.", None),
    ("signal.data.collection", ConfigType.STRING, "", "Signalling table, as schema.table.", None),
    ("signal.enabled.channels", ConfigType.LIST, ["source"], "Channels of signals. Only source is supported.",
        _source_only),
    ("incremental.snapshot.chunk.size", ConfigType.INT, 1024, "Rows per chunk of an incremental snapshot.",
        at_least(1)),
    ("include.unknown.datatypes", ConfigType.BOOLEAN, False,
        "Include columns of unknown types, as bytes.", None),
):  # fmt: skip
    POSTGRES_CONFIG.define(_name, _type, _default, Importance.MEDIUM, _text, validator=_check)
