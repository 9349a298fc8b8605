"""A stand-in for an OpenTelemetry collector that keeps every request."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue


class Collector(ThreadingHTTPServer):
    """Accepts requests to /v1/metrics."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: Queue[bytes] = Queue()
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self.thread.start()


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        right = self.path == "/v1/metrics" and self.headers["Content-Type"] == "application/x-protobuf"
        self.send_response(200 if right else 404)
        self.end_headers()
        if right:
            self.server.bodies.put(body)

    def log_message(self, format: str, *args: object) -> None:
        pass
