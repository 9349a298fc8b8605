"""The instructions of the programs that decode Avro, and what can be wrong with the bytes of a record.

After a change here, touch the modules that are compiled: numba keeps what it has compiled by their time.

An instruction is six numbers: what to do, up to three that say how, how many bytes are read, and where a loop goes on.
"""

from __future__ import annotations

# fmt: off
(
    # These begin with a number in the record.
    WHOLE,          # column, bits, factor: a number of so many bits, times the factor, or divided by a negative one
    TO_FLOAT,       # column, bits of the whole number
    TO_DOUBLE,      # column, bits of the whole number
    ENUM,           # column, start in the side table, count: pairs of start and length in the constants
    UNION,          # start in the side table, count: where each branch goes on
    SKIP_WHOLE,     #
    # That of these is the length of what comes.
    BYTES,          # column, whether they must be UTF-8
    DECIMAL_BYTES,  # column, precision
    SKIP_BYTES,     #
    # These begin with none.
    BOOLEAN,        # column
    FLOAT,          # column
    WIDER,          # column: a float as a double
    DOUBLE,         # column
    FIXED,          # column, whether they must be UTF-8
    DECIMAL,        # column, precision
    SKIP,           #
    LOOP,           # list column or -1, level of elements, whether elements may be empty
    NEXT,           # where the loop begins
    JUMP,           # where it goes on
    NULLS,          # start in the side table, count: columns
    CONSTANT,       # column, one or two slots
    COUNT,          # list column, level, how many elements of a default follow
    ADVANCE,        # level
    CALL,           # where
    RETURN,         #
    REFUSE,         # which reason
    END,            # the record must end here
) = range(27)

(
    GOOD, GROW, TRUNCATED, TOO_LONG, NEGATIVE, OUT_OF_RANGE, NO_BRANCH, NO_SYMBOL, NOT_BOOLEAN, NOT_UTF8, TOO_PRECISE,
    TOO_DEEP, TOO_MANY, REFUSED, MORE,
) = range(15)
# fmt: on

#: Where instructions have what they are made of.
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
