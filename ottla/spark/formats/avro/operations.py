"""Instructions of Avro decoding programs, and the possible errors of a record.

After a change here, touch the compiled modules, because numba's cache only checks their modification times.

An instruction has six numbers: the operation, up to three operands, the number of bytes to read, and a jump target.
"""

from __future__ import annotations

# fmt: off
(
    # Start with a number in the record.
    WHOLE,          # column, bits, factor: number of this width, times the factor, or divided if negative
    TO_FLOAT,       # column, bits of the integer
    TO_DOUBLE,      # column, bits of the integer
    ENUM,           # column, start in the side table, count: pairs of start and length in the constants
    UNION,          # start in the side table, count: target of each branch
    SKIP_WHOLE,     #
    # Start with a length in the record.
    BYTES,          # column, whether they must be UTF-8
    DECIMAL_BYTES,  # column, precision
    SKIP_BYTES,     #
    # Start without a number.
    BOOLEAN,        # column
    FLOAT,          # column
    WIDER,          # column: a float as a double
    DOUBLE,         # column
    FIXED,          # column, whether they must be UTF-8
    DECIMAL,        # column, precision
    SKIP,           #
    LOOP,           # list column or -1, level of elements, whether elements may be empty
    NEXT,           # start of the loop
    JUMP,           # target
    NULLS,          # start in the side table, count: columns
    CONSTANT,       # column, one or two slots
    COUNT,          # list column, level, number of following default elements
    ADVANCE,        # level
    CALL,           # target
    RETURN,         #
    REFUSE,         # reason
    END,            # the record must end here
) = range(27)

(
    GOOD, GROW, TRUNCATED, TOO_LONG, NEGATIVE, OUT_OF_RANGE, NO_BRANCH, NO_SYMBOL, NOT_BOOLEAN, NOT_UTF8, TOO_PRECISE,
    TOO_DEEP, TOO_MANY, REFUSED, MORE,
) = range(15)
# fmt: on

#: Positions of the operands in an instruction.
CODE, A, B, C, SIZE, AFTER = range(6)

REASONS = {
    TRUNCATED: "it ends within {where}",
    TOO_LONG: "{where} begins with a number of more than ten bytes",
    NEGATIVE: "{where} has a negative length",
    OUT_OF_RANGE: "{where} is out of the range of its type",
    NO_BRANCH: "{where} is of a branch that the union does not have",
    NO_SYMBOL: "{where} is a symbol that the enum of the columns does not have, and it has no default",
    NOT_BOOLEAN: "{where} is neither 0 nor 1, as a boolean is",
    NOT_UTF8: "{where} is not UTF-8",
    TOO_PRECISE: "{where} has more digits than its decimal type",
    TOO_DEEP: "{where} is nested too deeply",
    TOO_MANY: "{where} has too many empty elements",
    MORE: "there is more after its end",
}
