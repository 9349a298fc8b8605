"""How fields of messages are read, and what can be wrong with the bytes of one.

After a change here, touch the modules that are compiled: numba keeps what it has compiled by their time.
"""

from __future__ import annotations

# fmt: off
(
    INT32, INT64, UINT32, UINT64, SINT32, SINT64, BOOL, ENUM,  # varints
    FIXED32, SFIXED32, FLOAT,                                  # four bytes
    FIXED64, SFIXED64, DOUBLE,                                 # eight bytes
    STRING, BYTES, MESSAGE,                                    # a length, and so many bytes
    SECONDS, NANOS,                                            # parts of a timestamp or a duration
) = range(19)

#: What a field is made of: its number, how it is read, its column, its list's column or -1, the message that it is or
#: the start of an enum's symbols, where the other members of its oneof begin, how many columns those are, and which
#: wire type it has.
NUMBER, KIND, COLUMN, LIST, EXTRA, OTHERS, OTHER_COUNT, WIRE = range(8)

#: What a column of a message begins with: null, or the default of its type.
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
