"""Access levels. Every route declares its level, and tests call each route as each kind of caller."""

from __future__ import annotations

from enum import IntEnum


class Access(IntEnum):
    """Minimum level of a caller.

    ANYONE is for pages that reveal nothing: health checks, login pages, static files. USER is any authenticated caller;
    the handler applies the caller's own rights. The other levels need a server that assigns levels.
    """

    ANYONE = 0
    USER = 1
    VIEWER = 2
    OPERATOR = 3
    ADMIN = 4
