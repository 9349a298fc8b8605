"""Whether a regular expression is one that RE2 reads, which is what brokers match subscriptions with.

Python's parser reads nearly the same notation. What it has beyond RE2 is refused here, what it lacks is replaced by
something simple first.
"""

from __future__ import annotations

import re
from typing import Any

# Classes such as \pL, \p{Greek} and [:alpha:], and what Python writes otherwise.
_CLASS = re.compile(r"\\[pP](?:[A-Z]|\{\^?\w+\})")
_POSIX = re.compile(
    r"\[:\^?(?:alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit):\]"
)
_NAMED = re.compile(r"\(\?<(?=\w)")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
_MOST_REPEATS = 1000

# What Python's parser says, as RE2 says it.
_WORDS = {
    "unterminated character set": "missing closing ]",
    "missing ), unterminated subpattern": "missing closing )",
    "unbalanced parenthesis": "unexpected )",
    "bad escape (end of pattern)": "trailing backslash at end of expression",
    "nothing to repeat": "missing argument to repetition operator",
    "multiple repeat": "invalid nested repetition operator",
    "min repeat greater than max repeat": "invalid repeat count",
    "bad character range": "invalid character class range",
    "bad escape": "invalid escape sequence",
    "invalid group reference": "invalid escape sequence",
    "bad character in group name": "invalid named capture",
    "redefinition of group name": "duplicate capture group name",
    "unknown extension ?<": "invalid named capture",
}
_UNKNOWN_EXTENSION = "invalid or unsupported Perl syntax"
_REFUSED = {
    "GROUPREF": "invalid escape sequence",
    "GROUPREF_EXISTS": _UNKNOWN_EXTENSION,
    "ATOMIC_GROUP": _UNKNOWN_EXTENSION,
    "POSSESSIVE_REPEAT": "invalid nested repetition operator",
}


def fault(pattern: str) -> str | None:
    """What is wrong with it, in RE2's words; None if nothing is."""
    plain = _QUOTED.sub(lambda found: re.escape(found[1]), _NAMED.sub("(?P<", pattern))
    plain = _POSIX.sub("a-z", _CLASS.sub("\\\\w", plain)).replace("\\z", "$").replace("\\C", ".")
    try:
        tree = re._parser.parse(plain)  # type: ignore[attr-defined]
    except re.error as error:
        return next(
            (words for said, words in _WORDS.items() if error.msg.startswith(said)), _UNKNOWN_EXTENSION
        )
    except (OverflowError, RecursionError):
        return "invalid repeat count"
    return _fault_in(tree)


def _fault_in(tree: Any) -> str | None:
    if isinstance(tree, (tuple, list)):
        items = list(tree)
    elif hasattr(tree, "data"):  # a part of the pattern
        items = tree.data
    else:
        return None
    for item in items:
        name = getattr(item, "name", "")
        if name in _REFUSED:
            return _REFUSED[name]
        if name in ("ASSERT", "ASSERT_NOT"):
            behind = items[1][0] < 0
            return "invalid named capture" if behind else _UNKNOWN_EXTENSION
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            bounds = [int(bound) for bound in items[1][:2] if getattr(bound, "name", "") != "MAXREPEAT"]
            if max(bounds) > _MOST_REPEATS:
                return "invalid repeat count"
        wrong = _fault_in(item)
        if wrong is not None:
            return wrong
    return None
