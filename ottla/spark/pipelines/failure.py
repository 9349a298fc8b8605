"""Failure messages: reduces Spark's errors to one sentence with pipeline, query, batch, records and reason."""

from __future__ import annotations

import json
import re
import traceback
from pathlib import Path

from ottla.spark.pipelines.query_progress import offsets_of
from ottla.spark.pipelines.state import PipelineError

_TRACEBACK = "Traceback (most recent call last):"

# Start of Spark's plans and stack traces.
_REST = re.compile(
    r"\n=== Streaming Query ===|\n\s*JVM stacktrace:|\n\tat |\s*SQLSTATE: \w+|\n\n\S*[Ll]ogical [Pp]lan:"
)
_WRAPPING = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception:\s*", re.DOTALL)
_ERROR_CLASS = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_EXCEPTION = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$", re.DOTALL)

_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
# In tracebacks from executors.
_WORKER = "pyspark/worker.py"

_NAMED_PARTITIONS = 3


def query_failed(pipeline: str, query: str, batch: int | None, text: str) -> PipelineError:
    where = f"query '{query}'" if batch is None else f"batch {batch} of query '{query}'"
    reason = sentence(text)
    records = "" if "offset" in reason.lower() else records_of_batch(text)
    return PipelineError(
        f"Pipeline '{pipeline}' failed in {where}: {reason}"
        + (f" The batch had {records}." if records else ""),
        text,
    )


def start_failed(pipeline: str, file: Path, error: BaseException) -> PipelineError:
    """Build the error for an exception from the pipeline's code, or from Spark called there."""
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == str(file)), None)
    where = f" ({file.name}, line {line})" if line is not None else ""
    text = f"{type(error).__module__}.{type(error).__name__}: {error}"
    return PipelineError(
        f"Pipeline '{pipeline}' could not be started: {sentence(text).rstrip('.')}{where}.",
        "".join(traceback.format_exception(error)),
    )


def sentence(text: str) -> str:
    """Return the innermost reason: the last line of a Python traceback, or the unwrapped message."""
    missing = _MISSING_MODULE.search(text)
    if missing is not None and _WORKER in text:
        return _install_on_nodes(missing[1].partition(".")[0])
    if _TRACEBACK in text:
        reason = _raised(text.rpartition(_TRACEBACK)[2])
    else:
        reason = _without_our_names(_ERROR_CLASS.sub("", _WRAPPING.sub("", _cut(text))))
    reason = " ".join(_ERROR_CLASS.sub("", reason).split())
    if not reason:
        return "No reason was given."
    return reason if reason.endswith((".", "!", "?")) else f"{reason}."


def _install_on_nodes(package: str) -> str:
    what = "'ottla[spark]'" if package == "ottla" else package
    return (
        f"A Spark node has no Python package {package}: install it on every node with pip install {what}, in the "
        "environment of PYSPARK_PYTHON, or ship an environment with spark.archives."
    )


def _cut(text: str) -> str:
    found = _REST.search(text)
    return (text if found is None else text[: found.start()]).rstrip().lstrip("\n")


def _raised(frames: str) -> str:
    lines = _cut(frames).split("\n")
    first = next((i for i, line in enumerate(lines) if line and not line.startswith(" ")), 0)
    return _without_our_names("\n".join(lines[first:]))


def _without_our_names(raised: str) -> str:
    """Drop the class names of Ottla's and Spark's exceptions, whose messages are sentences. Shorten others."""
    found = _EXCEPTION.match(raised)
    if found is None or "." not in found["kind"]:
        return raised
    kind, message = found["kind"], found["message"] or ""
    if kind.startswith(("ottla.", "pyspark.errors.")) and message:
        return _ERROR_CLASS.sub("", message)
    short = kind.rpartition(".")[2]
    return f"{short}: {message}" if message else short


def records_of_batch(text: str) -> str:
    """Return the offsets of the failed batch, as in `tweets-0 at offsets 5 to 9`."""
    committed = _offsets(text, "Current Committed Offsets: ")
    available = _offsets(text, "Current Available Offsets: ")
    ranges = []
    for (source, topic, partition), end in sorted(available.items()):
        start = committed.get((source, topic, partition))
        if start is None:
            if end > 0:
                ranges.append(f"{topic}-{partition} up to offset {end - 1}")
        elif end - start == 1:
            ranges.append(f"{topic}-{partition} at offset {start}")
        elif end > start:
            ranges.append(f"{topic}-{partition} at offsets {start} to {end - 1}")
    left = len(ranges) - _NAMED_PARTITIONS
    return ", ".join(ranges[:_NAMED_PARTITIONS]) + (f" and {left} more" if left > 0 else "")


def _offsets(text: str, label: str) -> dict[tuple[str, str, str], int]:
    """Parse the offsets in a line like `Current Committed Offsets: {source: {"tweets": {"0": 5}}}`."""
    _, found, rest = text.partition(label)
    line = rest.partition("\n")[0] if found else ""
    offsets: dict[tuple[str, str, str], int] = {}
    decoder, position = json.JSONDecoder(), 1
    while (colon := line.find(": {", position)) >= 0:
        source = line[position:colon].lstrip(", ")
        try:
            value, position = decoder.raw_decode(line, colon + 2)
        except ValueError:
            break
        for topic, partitions in (offsets_of(value) or {}).items():
            offsets |= {(source, topic, partition): offset for partition, offset in partitions.items()}
    return offsets
