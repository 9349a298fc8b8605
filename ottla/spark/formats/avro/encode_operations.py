"""Instructions of Avro encoding programs, and the possible errors of a row.

After a change here, touch the compiled modules, because numba's cache only checks their modification times.
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
    IF_NULL,    # column, branch number for null or -1, other branch number or -1: target if null
    REQUIRE,    # column
    LOOP,       # list column, level of elements; target
    NEXT,       # start of the loop
    JUMP,       # target
    LITERAL,    # start in the constants, count
    REFUSE,     #
    DONE,       #
) = range(16)

FINISHED, FULL, NULL, OUT_OF_RANGE, WRONG_SIZE, NO_SYMBOL = range(6)
# fmt: on

#: Positions of the operands in an instruction.
CODE, A, B, C, AFTER = range(5)

REASONS = {
    NULL: "{where} is null, which the schema does not allow",
    OUT_OF_RANGE: "{where} is out of the range of its type in the schema",
    WRONG_SIZE: "{where} has not the size of its type in the schema",
    NO_SYMBOL: "{where} is none of the symbols or branches of its type in the schema",
}
