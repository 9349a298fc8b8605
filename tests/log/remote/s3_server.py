"""moto's S3 server, with requests that fail on demand."""

from __future__ import annotations

import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


class S3Server:
    """`failing` gets method and query of a request; where it says so, the request is forbidden."""

    def __init__(self):
        self._app = DomainDispatcherApplication(create_backend_app)
        self.failing = lambda method, query: False
        self.requests = []
        self._server = make_server("127.0.0.1", 0, self._handle, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.port}"

    def _handle(self, environ, start_response):
        method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
        self.requests.append((method, query))
        if self.failing(method, query):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("403 Forbidden", [("Content-Length", "0")])
            return [b""]
        return self._app(environ, start_response)

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
