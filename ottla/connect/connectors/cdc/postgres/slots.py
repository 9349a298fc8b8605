"""Checks the replication slot and the publication, and creates them on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import pq, sql

from ottla.connect.connectors.cdc.postgres.connection import Server
from ottla.connect.connectors.cdc.postgres.pgoutput import format_lsn, parse_lsn
from ottla.connect.errors import ConnectError, RetriableError

PLUGIN = "pgoutput"


class SlotState(NamedTuple):
    plugin: str
    database: str
    confirmed: int
    is_active: bool
    is_lost: bool


class ExportedSnapshot(NamedTuple):
    """Valid until `holder` is closed."""

    name: str
    #: Transactions committed before this point are visible, all others are not.
    lsn: int
    holder: pq.abc.PGconn


class Slot:
    def __init__(self, server: Server, settings: Mapping[str, Any]) -> None:
        self._server = server
        self.name: str = settings["slot.name"]

    def state(self, connection: psycopg.Connection[Any]) -> SlotState | None:
        row = connection.execute(
            "SELECT plugin, database, confirmed_flush_lsn::text, active, wal_status = 'lost' FROM pg_replication_slots "
            "WHERE slot_name = %s",
            [self.name],
        ).fetchone()
        if row is None:
            return None
        plugin, database, confirmed, active, lost = row
        return SlotState(plugin or "", database or "", parse_lsn(confirmed or "0/0"), active, bool(lost))

    def check(self, connection: psycopg.Connection[Any]) -> SlotState | None:
        """Raise an error if the slot is unusable. Return None if it does not exist yet."""
        level = connection.execute("SHOW wal_level").fetchone()
        if level is None or level[0] != "logical":
            raise ConnectError(
                f"PostgreSQL at {self._server.target.host}:{self._server.target.port} has wal_level="
                f"{level[0] if level else '?'}, but changes are captured only with wal_level=logical: set it in "
                "postgresql.conf and restart the server."
            )
        state = self.state(connection)
        if state is None:
            return None
        if state.database != self._server.target.database or state.plugin != PLUGIN:
            raise ConnectError(
                f"Replication slot {self.name!r} is for plugin {state.plugin or 'none'} and database "
                f"{state.database or 'none'}, not for {PLUGIN} and {self._server.target.database}: choose another "
                "slot.name."
            )
        if state.is_lost:
            raise ConnectError(
                f"PostgreSQL has removed log that replication slot {self.name!r} needs (max_slot_wal_keep_size), so "
                "changes are lost: drop the slot and reset the connector's offsets, to begin with a new snapshot."
            )
        return state

    def create(self) -> ExportedSnapshot:
        return self._create(self.name, temporary=False)

    def snapshot_only(self) -> ExportedSnapshot:
        """Create a temporary slot for its snapshot. The slot lives as long as the holder."""
        return self._create(f"{self.name[:40]}_snapshot_{id(self) % 1_000_000}", temporary=True)

    def _create(self, name: str, *, temporary: bool) -> ExportedSnapshot:
        kind = "TEMPORARY " if temporary else ""
        try:
            holder, (_, lsn, snapshot, _) = self._server.replication_command(
                f'CREATE_REPLICATION_SLOT "{name}" {kind}LOGICAL {PLUGIN} EXPORT_SNAPSHOT'
            )
        except psycopg.errors.InsufficientPrivilege:
            raise ConnectError(
                f"User {self._server.target.user!r} may not create a replication slot: run ALTER ROLE "
                f'"{self._server.target.user}" REPLICATION, or create slot {name!r} for {PLUGIN} yourself.'
            ) from None
        except psycopg.errors.ConfigurationLimitExceeded:
            raise ConnectError(
                "All replication slots of PostgreSQL are in use: raise max_replication_slots, or drop slots that "
                "nobody reads (pg_replication_slots shows them)."
            ) from None
        except psycopg.Error as error:
            raise self._server.explained(error, f"create replication slot {name!r}") from error
        return ExportedSnapshot(snapshot, parse_lsn(lsn), holder)

    def advance(self, connection: psycopg.Connection[Any], lsn: int) -> None:
        """Let PostgreSQL discard the log before `lsn`."""
        try:
            connection.execute(
                "SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [self.name, format_lsn(lsn)]
            )
        except psycopg.errors.ObjectInUse:
            raise self.in_use() from None
        except psycopg.errors.ObjectNotInPrerequisiteState:
            # A repeated commit: the slot is already further ahead.
            return

    def in_use(self) -> RetriableError:
        return RetriableError(
            f"Replication slot {self.name!r} is in use by another connection: give each connector a slot.name of its "
            "own, or stop the other reader."
        )


def ensure_publication(
    server: Server,
    connection: psycopg.Connection[Any],
    settings: Mapping[str, Any],
    tables: Sequence[tuple[str, str]],
) -> None:
    """`tables` are the captured tables, for publication.autocreate.mode=filtered."""
    name, mode = settings["publication.name"], settings["publication.autocreate.mode"]
    found = connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", [name]).fetchone()
    named = [sql.Identifier(schema, table) for schema, table in tables]
    try:
        if found is not None:
            if mode == "filtered" and named:
                statement = sql.SQL("ALTER PUBLICATION {} SET TABLE {}")
                connection.execute(statement.format(sql.Identifier(name), sql.SQL(", ").join(named)))
            return
        if mode == "disabled":
            raise ConnectError(
                f"There is no publication {name!r} in {server.target} and publication.autocreate.mode is disabled: run "
                f"CREATE PUBLICATION {name} FOR TABLE …, or set the mode to filtered."
            )
        if mode == "filtered" and not named:
            raise ConnectError(
                f"No table of {server.target} is to be captured: check table.include.list and schema.include.list."
            )
        create = sql.SQL("CREATE PUBLICATION {}").format(sql.Identifier(name))
        if mode == "all_tables":
            create += sql.SQL(" FOR ALL TABLES")
        elif mode == "filtered":
            create += sql.SQL(" FOR TABLE ") + sql.SQL(", ").join(named)
        connection.execute(create)
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConnectError(
            f"User {server.target.user!r} may not create publication {name!r} ({error.diag.message_primary}): let an "
            "administrator create it, or use publication.autocreate.mode=filtered as owner of the tables."
        ) from None
