"""Instructions of Protobuf encoding programs, and the possible errors of a row.

After a change here, touch the compiled modules, because numba's cache only checks their modification times.
"""

from __future__ import annotations

# fmt: off
(
    LITERAL,    # start in the constants, count: tags
    IF_NULL,    # column: target if null
    REQUIRE,    # column
    VARINT,     # column, smallest value
    ZIGZAG,     # column
    BYTES,      # column
    FOUR,       # column
    EIGHT,      # column
    UNSIGNED,   # column, smallest value of a decimal written as an unsigned number
    ENUM,       # column, start in the side table, count: number, start and length in the constants
    TIME,       # column, whether it is a timestamp instead of a duration
    BEGIN,      # a length, filled in by END
    END,        #
    IF_EMPTY,   # list column: target if empty
    LOOP,       # list column, level of elements; target
    NEXT,       # start of the loop
    JUMP,       # target
    DONE,       #
) = range(18)

FINISHED, FULL, NULL, OUT_OF_RANGE, NO_SYMBOL = range(5)
# fmt: on

#: Positions of the operands in an instruction.
CODE, A, B, C, AFTER = range(5)

REASONS = {
    NULL: "{where} is null, which an element of Protobuf cannot be",
    OUT_OF_RANGE: "{where} is out of the range of its type in the schema",
    NO_SYMBOL: "{where} is none of the values of its enum in the schema",
}
