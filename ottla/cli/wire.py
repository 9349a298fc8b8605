"""The plain connection of `ottla.client`, with failures as the command line tells them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from ottla.cli.errors import BrokerUnreachable, JobError
from ottla.client import connection
from ottla.client.errors import ClientError, Unreachable
from ottla.client.settings import Settings

if TYPE_CHECKING:
    from ottla.cli.client import Client
    from ottla.protocol.codec import Request, Response

R = TypeVar("R", bound="Response")


@contextmanager
def _sentences() -> Iterator[None]:
    try:
        yield
    except Unreachable as error:
        raise BrokerUnreachable(error.message) from None
    except ClientError as error:
        raise JobError(error.message, error.code.name if error.code else None) from None


class Connection:
    """One request at a time, in the newest version that both sides know."""

    def __init__(self, client: Client, host: str, port: int) -> None:
        properties = {**client.properties, "request.timeout.ms": str(int(client.timeout * 1000))}
        with _sentences():
            settings = Settings.from_properties(properties, client_id="ottla-cli")
            self._connection = connection.Connection(settings, host, port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """Lowest and highest version of each API that the broker knows."""
        with _sentences():
            return self._connection.versions

    def request(self, request: Request, response_type: type[R]) -> R:
        with _sentences():
            return self._connection.request(request, response_type)
