"""`python -m ottla.monitoring.metrics.probe [URL]`: end with 0 if a broker is ready. For health checks of containers.

Imports little, because it runs every few seconds.
"""

from __future__ import annotations

import http.client
import os
import sys
from urllib.parse import urlsplit

_SECONDS = 4.0


def default_url() -> str:
    return f"http://127.0.0.1:{os.environ.get('OTTLA_METRICS_PORT', '9404')}/readyz"


def probe(url: str) -> tuple[bool, str]:
    """Return whether the answer is 200, and its text or the reason why there is none."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=_SECONDS)
    try:
        connection.request("GET", parts.path or "/readyz")
        answer = connection.getresponse()
        return answer.status == 200, answer.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return False, f"{url} does not answer: {error}"
    finally:
        connection.close()


def main() -> None:
    is_ready, text = probe(sys.argv[1] if len(sys.argv) > 1 else default_url())
    print(text)
    sys.exit(0 if is_ready else 1)


if __name__ == "__main__":
    main()
