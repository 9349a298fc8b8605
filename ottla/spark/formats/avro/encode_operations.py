"""The instructions of the programs that encode Avro, and what can be wrong with a row.

After a change here, touch the modules that are compiled: numba keeps what it has compiled by their time.
"""

from __future__ import annotations

# fmt: off
(
    WHOLE,      # column, divisor, smallest value
    BOOLEAN,    # column
    FLOAT,      # column
    DOUBLE,     # column
    TEXT,       # column
    FIXED,      # column, size
    DECIMAL,    # column, size or -1
    ENUM,       # column, start in the side table, count: pairs of start and length in the constants
    IF_NULL,    # column, number of the branch for null or -1, number of the other or -1: where it goes on if it is null
    REQUIRE,    # column
    LOOP,       # list column, level of elements; where it goes on
    NEXT,       # where the loop begins
    JUMP,       # where it goes on
    LITERAL,    # start in the constants, count
    REFUSE,     #
    DONE,       #
) = range(16)

FINISHED, FULL, NULL, OUT_OF_RANGE, WRONG_SIZE, NO_SYMBOL = range(6)
# fmt: on

#: Where instructions have what they are made of.
CODE, A, B, C, AFTER = range(5)

REASONS = {
    NULL: "{where} is null, which the schema does not allow",
    OUT_OF_RANGE: "{where} is out of the range of its type in the schema",
    WRONG_SIZE: "{where} has not the size of its type in the schema",
    NO_SYMBOL: "{where} is none of the symbols or branches of its type in the schema",
}
