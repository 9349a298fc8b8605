"""Regular expressions in requests, which Kafka reads with RE2/J: in RE2's notation, matched in linear time.

Python's `re` may need exponential time, and one slow pattern would stop the broker. RE2 itself is what is used here;
where RE2/J refuses more, or in other words, so does this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

# More than any list of topics needs. RE2 has a limit on memory too: compiling what needs more would hold up the broker.
_LONGEST = 32_768
_DEEPEST = 1_000
_MEMORY = 1 << 20

# What has to be looked at in a pattern: quotations, escapes, classes, named groups, parentheses.
_TOKEN = re.compile(
    r"\\Q.*?(?:\\E|\Z) | \\. | \[\^?\]?(?:\\.|\[:\^?\w*:\]|[^\]\\])*\]? | \(\?P?<(?P<name>\w+)> | [()]",
    re.DOTALL | re.VERBOSE,
)

# What RE2 says, as RE2/J says it.
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
    """The text is RE2/J's."""


@lru_cache(maxsize=256)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text matches as a whole. Raises RegexError for what is no regular expression."""
    import re2  # 20 ms, for the few who use patterns

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
        # RE2/J takes every `(?<` for the beginning of a name.
        words = "invalid named capture group" if where.startswith("(?<") else words
        raise RegexError(_WORDS.get(words, words)) from None
    _check(pattern)
    return lambda text: fullmatch(text.encode()) is not None


def _check(pattern: str) -> None:
    """What RE2 reads and RE2/J does not."""
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
