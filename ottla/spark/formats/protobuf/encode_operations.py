"""The instructions of the programs that encode Protobuf, and what can be wrong with a row.

After a change here, touch the modules that are compiled: numba keeps what it has compiled by their time.
"""

from __future__ import annotations

# fmt: off
(
    LITERAL,    # start in the constants, count: tags
    IF_NULL,    # column: where it goes on if it is null
    REQUIRE,    # column
    VARINT,     # column, smallest value
    ZIGZAG,     # column
    BYTES,      # column
    FOUR,       # column
    EIGHT,      # column
    UNSIGNED,   # column, smallest value of a decimal that is written as a number without a sign
    ENUM,       # column, start in the side table, count: number, start and length in the constants
    TIME,       # column, whether it is a timestamp, and not a duration
    BEGIN,      # a length, which END knows
    END,        #
    IF_EMPTY,   # list column: where it goes on if it has no elements
    LOOP,       # list column, level of elements; where it goes on
    NEXT,       # where the loop begins
    JUMP,       # where it goes on
    DONE,       #
) = range(18)

FINISHED, FULL, NULL, OUT_OF_RANGE, NO_SYMBOL = range(5)
# fmt: on

#: Where instructions have what they are made of.
CODE, A, B, C, AFTER = range(5)

REASONS = {
    NULL: "{where} is null, which an element of Protobuf cannot be",
    OUT_OF_RANGE: "{where} is out of the range of its type in the schema",
    NO_SYMBOL: "{where} is none of the values of its enum in the schema",
}
