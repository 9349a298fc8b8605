"""Check request headers and build response heads of HTTP/1.1. Pure."""

from __future__ import annotations

from ottla.http.errors import HttpError
from ottla.http.messages import Request, Response
from ottla.http.shared import check_header, status_line


class Exchange:
    """A request and the state of its response."""

    __slots__ = ("continue_expected", "keep_alive", "refusal", "request")

    def __init__(self, request: Request, keep_alive: bool, continue_expected: bool) -> None:
        self.request = request
        self.keep_alive = keep_alive
        self.continue_expected = continue_expected
        self.refusal: HttpError | None = None  # set for a malformed request


def response_head(exchange: Exchange, response: Response, length: int | None, date: str) -> bytes:
    """Return the response head. Without a length the body is chunked, or ends with the connection."""
    head = f"{status_line(response.status)}Date: {date}\r\n"
    if response.content_type is not None and response.has_body:
        head += f"Content-Type: {response.content_type}\r\n"
    if response.headers:
        for name, value in response.headers.items():
            check_header(name, value)
            head += f"{name}: {value}\r\n"
    if length is not None:
        if response.has_body:
            head += f"Content-Length: {length}\r\n"
    elif exchange.request.http_version == "1.1" and response.has_body:
        head += "Transfer-Encoding: chunked\r\n"
    if not exchange.keep_alive:
        head += "Connection: close\r\n"
    elif exchange.request.http_version == "1.0":
        head += "Connection: keep-alive\r\n"
    return (head + "\r\n").encode("latin-1", "replace")


def headers_too_large() -> HttpError:
    return HttpError(431, 431, "The headers of the request are too large.")


def refusal_of(headers: dict[str, str], version: str, chunked: bool, length: str | None) -> HttpError | None:
    """Refuse headers that llhttp accepts but two servers in a chain could interpret differently."""
    if chunked and length is not None:
        return HttpError(400, 400, "The request has both Content-Length and Transfer-Encoding.")
    if chunked and headers["transfer-encoding"].lower() != "chunked":
        return HttpError(501, 501, "Transfer-Encoding can only be chunked.")
    if chunked and version != "1.1":
        return HttpError(400, 400, "Transfer-Encoding needs HTTP/1.1.")
    if length is not None and not (length.isascii() and length.isdigit()):
        return HttpError(400, 400, "Content-Length is not a number.")
    if version not in ("1.1", "1.0"):
        return HttpError(505, 505, f"HTTP/{version} is not supported.")
    if version == "1.1" and "host" not in headers:
        return HttpError(400, 400, "The header Host is missing.")
    if "expect" in headers and headers["expect"].lower() != "100-continue":
        return HttpError(417, 417, "Expect can only be 100-continue.")
    return None


def origin_form(target: str) -> str:
    """Return the path of `http://host/path`, which a client may send as well."""
    scheme, found, rest = target.partition("://")
    if not found or "/" in scheme:
        return target
    return "/" + rest.partition("/")[2]


def head_without_upgrade(request: Request) -> bytes:
    target = request.path + (f"?{request.query_string}" if request.query_string else "")
    lines = [f"{request.method} {target} HTTP/{request.http_version}"]
    lines += [
        f"{name}: {value}" for name, value in request.headers.items() if name not in ("upgrade", "connection")
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
