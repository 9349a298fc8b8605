"""Levels of access. Every route declares the one it needs, and tests ask each route as each kind of caller."""

from __future__ import annotations

from enum import IntEnum


class Access(IntEnum):
    """The least that a caller needs, from nothing to everything.

    ANYONE is for pages that give nothing away: health checks, login pages, static files. USER is any authenticated
    caller; the handler applies the caller's own rights. The other levels need a server that knows levels.
    """

    ANYONE = 0
    USER = 1
    VIEWER = 2
    OPERATOR = 3
    ADMIN = 4
