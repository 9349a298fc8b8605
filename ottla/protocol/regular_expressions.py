"""Regular expressions in requests: RE2 syntax, matched in linear time. Kafka uses RE2/J.

Python's `re` can take exponential time, and one slow pattern would block the broker. This module uses RE2 itself and
adds the restrictions and the error messages of RE2/J.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

# Longer than any topic list needs. RE2 limits memory as well, since compiling a huge pattern would block the broker.
_LONGEST = 32_768
_DEEPEST = 1_000
_MEMORY = 1 << 20

# Tokens to check in a pattern: quotations, escapes, classes, named groups, parentheses.
_TOKEN = re.compile(
    r"\\Q.*?(?:\\E|\Z) | \\. | \[\^?\]?(?:\\.|\[:\^?\w*:\]|[^\]\\])*\]? | \(\?P?<(?P<name>\w+)> | [()]",
    re.DOTALL | re.VERBOSE,
)

# RE2's error messages in the wording of RE2/J.
_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "pattern too large - compile failed": "expression too large",
}


class RegexError(ValueError):
    """An invalid pattern, with RE2/J's message."""


@lru_cache(maxsize=256)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that matches whole strings. Raises RegexError for an invalid pattern."""
    import re2  # takes 20 ms and is rarely needed

    if len(pattern) > _LONGEST:
        raise RegexError("expression too large")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MEMORY
    try:
        fullmatch = re2.compile(pattern.encode(), options).fullmatch
    except UnicodeEncodeError as error:
        raise RegexError("invalid UTF-8") from error
    except re2.error as error:
        words, _, where = error.args[0].decode(errors="replace").partition(": ")
        # RE2/J treats every `(?<` as the start of a name.
        words = "invalid named capture group" if where.startswith("(?<") else words
        raise RegexError(_WORDS.get(words, words)) from None
    _check(pattern)
    return lambda text: fullmatch(text.encode()) is not None


def _check(pattern: str) -> None:
    """Reject syntax that RE2 accepts and RE2/J does not."""
    names: set[str] = set()
    depth = 0
    for token in _TOKEN.finditer(pattern):
        if token[0] == "\\C":
            raise RegexError("invalid escape sequence")
        if token["name"]:
            if token["name"] in names:
                raise RegexError("duplicate capture group name")
            names.add(token["name"])
        depth += (token[0][0] == "(") - (token[0] == ")")
        if depth > _DEEPEST:
            raise RegexError("expression nests too deeply")
