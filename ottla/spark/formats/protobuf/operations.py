"""Kinds of message fields, and the possible errors of a message.

After a change here, touch the compiled modules, because numba's cache only checks their modification times.
"""

from __future__ import annotations

# fmt: off
(
    INT32, INT64, UINT32, UINT64, SINT32, SINT64, BOOL, ENUM,  # varints
    FIXED32, SFIXED32, FLOAT,                                  # four bytes
    FIXED64, SFIXED64, DOUBLE,                                 # eight bytes
    STRING, BYTES, MESSAGE,                                    # a length, then that many bytes
    SECONDS, NANOS,                                            # parts of a timestamp or a duration
) = range(19)

#: Columns of the field table: field number, kind, column, list column or -1, message number or start of the enum
#: symbols, start and number of the other columns of its oneof, and wire type.
NUMBER, KIND, COLUMN, LIST, EXTRA, OTHERS, OTHER_COUNT, WIRE = range(8)

#: Initial state of a message's column: null, or the default of its type.
AS_NULL, AS_DEFAULT = range(2)

GOOD, GROW, TRUNCATED, TOO_LONG, NO_TAG, NOT_UTF8, TOO_DEEP, NO_GROUP = range(8)
# fmt: on

VARINT, EIGHT, BYTES_WIRE, START_GROUP, END_GROUP, FOUR = range(6)

REASONS = {
    TRUNCATED: "it ends within {where}",
    TOO_LONG: "{where} has a number of more than ten bytes",
    NO_TAG: "{where} has bytes that begin no field",
    NOT_UTF8: "a string of {where} is not UTF-8",
    TOO_DEEP: "{where} is nested too deeply",
    NO_GROUP: "{where} ends a group that did not begin",
}
