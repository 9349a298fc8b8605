"""Start a search in a separate process, and forward its results."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ottla.console.messages.decoding import Shown, ShownMessage
from ottla.console.messages.scanning import Query
from ottla.console.settings import ClusterSettings, Mask
from ottla.console.web.streaming import FromThread
from ottla.python_process import python_command, python_environment


@dataclass(frozen=True)
class Job:
    cluster: ClusterSettings
    topic: str
    ranges: Mapping[int, tuple[int, int]]
    query: Query
    limit: int
    committed_only: bool = False
    masks: Sequence[Mask] = ()
    newest_first: bool = False
    #: Report new messages from the end of the ranges on, until the visitor leaves.
    follow: bool = False

    def line(self) -> bytes:
        document = {
            "properties": dict(self.cluster.properties),
            "registry": self.cluster.registry,
            "topic": self.topic,
            "ranges": {number: list(each) for number, each in self.ranges.items()},
            "query": asdict(self.query),
            "limit": self.limit,
            "committed_only": self.committed_only,
            "newest_first": self.newest_first,
            "follow": self.follow,
            "masks": [
                {"topics": list(each.topics), "fields": list(each.fields), "replace": each.replace}
                for each in self.masks
            ],
        }
        return json.dumps(document).encode() + b"\n"


def search(job: Job) -> FromThread[dict[str, Any]]:
    """Yield lines with `progress`, `hit` (a ShownMessage), `failed` or `end`. Stopping
    the iteration ends the process.
    """
    process = subprocess.Popen(
        python_command("-m", "ottla.console.messages.search_process"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=python_environment(),
    )

    def run(emit: Callable[[dict[str, Any]], None]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        is_over = False
        try:
            try:
                process.stdin.write(job.line())
                process.stdin.close()
            except BrokenPipeError:
                pass
            for text in process.stdout:
                line = json.loads(text)
                if "hit" in line:
                    line["hit"] = _message(line["hit"])
                is_over = is_over or "end" in line or "failed" in line
                emit(line)
            if not is_over:
                emit({"failed": "The search was ended: it took too much memory or time."})
        finally:
            process.kill()
            process.stdout.close()
            process.wait()

    return FromThread(run, process.kill)


def _message(document: dict[str, Any]) -> ShownMessage:
    headers = tuple((name, Shown(**each)) for name, each in document["headers"])
    return ShownMessage(
        **{
            **document,
            "key": Shown(**document["key"]),
            "value": Shown(**document["value"]),
            "headers": headers,
        }
    )
