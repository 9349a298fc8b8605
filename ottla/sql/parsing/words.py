"""Cursor over the tokens of one statement."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlglot.tokens import Token, TokenType

from ottla.sql.errors import Position, SqlError
from ottla.sql.parsing.dialect import Text
from ottla.sql.sql_types import SqlType

_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_UNITS = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}


#: Finds a type from CREATE TYPE by name.
FindType = Callable[[str], SqlType | None]


class Words:
    """Compares words in upper case. Quoted tokens never match."""

    def __init__(self, text: Text, tokens: list[Token], types: FindType | None = None) -> None:
        self.text = text
        self.find_type: FindType = types or (lambda _name: None)
        self._tokens = [part for token in tokens for part in _split(token)]
        self._next = 0

    # Position

    @property
    def position(self) -> Position:
        if self._next < len(self._tokens):
            return self.text.position(self._tokens[self._next].start)
        return self.text.position(self._tokens[-1].end + 1) if self._tokens else Position(1, 1)

    @property
    def at_end(self) -> bool:
        return self._next >= len(self._tokens)

    def token(self, ahead: int = 0) -> Token | None:
        where = self._next + ahead
        return self._tokens[where] if where < len(self._tokens) else None

    @property
    def kind(self) -> TokenType | None:
        token = self.token()
        return None if token is None else token.token_type

    def word(self, ahead: int = 0) -> str:
        """Return the word in upper case, or an empty string at the end and for quoted tokens."""
        token = self.token(ahead)
        if token is None or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return ""
        written: str = token.text
        return written.upper()

    def shown(self) -> str:
        token = self.token()
        return "the end of the statement" if token is None else f"'{token.text}'"

    def fail(self, message: str) -> SqlError:
        return SqlError(message, self.position)

    # Taking

    def take(self) -> Token:
        token = self.token()
        if token is None:
            raise self.fail("The statement ends too early.")
        self._next += 1
        return token

    def accept(self, *words: str) -> bool:
        if all(self.word(i) == word for i, word in enumerate(words)):
            self._next += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.fail(f"Expected {' '.join(words)}, found {self.shown()}.")

    def expect_one_of(self, words: Collection[str]) -> str:
        word = self.word()
        if word not in words:
            raise self.fail(f"Expected {', '.join(words)}, found {self.shown()}.")
        self._next += 1
        return word

    def end(self) -> None:
        if not self.at_end:
            raise self.fail(f"Nothing is expected here, but there is {self.shown()}.")

    def name(self, what: str = "a name") -> tuple[str, str]:
        """Consume an identifier. Return its name and its original spelling."""
        if self.kind == TokenType.IDENTIFIER:
            quoted = str(self.take().text)
            return quoted, quoted
        plain = self.word().replace("_", "A").replace("@", "A").replace("$", "A")
        if not plain.isalnum() or plain[0].isdigit():
            raise self.fail(f"Expected {what}, found {self.shown()}.")
        written = str(self.take().text)
        return written.upper(), written

    def string(self, what: str = "a text in quotes") -> str:
        if self.kind != TokenType.STRING:
            raise self.fail(f"Expected {what}, found {self.shown()}.")
        return str(self.take().text)

    def number(self, what: str = "a number") -> int:
        if self.kind != TokenType.NUMBER or not self.word().isdigit():
            raise self.fail(f"Expected {what}, found {self.shown()}.")
        return int(self.take().text)

    def duration_ms(self) -> int:
        amount = self.number("a number of SECONDS, MINUTES, HOURS or DAYS")
        each = _UNITS.get(self.word().removesuffix("S"))
        if each is None:
            raise self.fail(f"Unknown time unit: '{self.word()}'; expected one such as MINUTES.")
        self._next += 1
        return amount * each

    # Ranges of tokens

    def until(self, stop: Callable[[Words], bool]) -> list[Token]:
        """Return the tokens up to the first match of `stop` outside parentheses, or to the end."""
        start, depth = self._next, 0
        while not self.at_end:
            kind = self._tokens[self._next].token_type
            if depth == 0 and (kind in _CLOSE or stop(self)):
                break
            depth += (kind in _OPEN) - (kind in _CLOSE)
            self._next += 1
        return self._tokens[start : self._next]


def split_at_commas(tokens: list[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        if depth == 0 and token.token_type == TokenType.COMMA:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _split(token: Token) -> list[Token]:
    """Split tokens such as GROUP BY, which sqlglot joins."""
    written: str = token.text
    if " " not in written or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return [token]
    words = written.split()
    # All words keep the position of the first one, for error messages.
    return [Token(TokenType.VAR, word, token.line, token.col, token.start, token.end) for word in words]
