"""Detect HTTP/1.1 requests that ask for another protocol."""

from __future__ import annotations

from ottla.http.messages import Request

WEBSOCKET, H2C = "websocket", "h2c"


def wanted_upgrade(request: Request) -> str | None:
    headers = request.headers
    words = {word.strip().lower() for word in headers.get("connection", "").split(",")}
    if "upgrade" not in words:
        return None
    wanted = {word.strip().lower() for word in headers["upgrade"].split(",")}
    if WEBSOCKET in wanted:
        return WEBSOCKET if request.method == "GET" else None
    return H2C if H2C in wanted and "http2-settings" in words and "http2-settings" in headers else None
