"""Pipeline files: Python with a function `pipeline(spark)`, or a SQL script."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from ottla.python_process import add_import_directory
from ottla.spark.pipelines.state import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

# Starts the queries of a pipeline in a session with the given bootstrap servers.
Starter = Callable[["SparkSession", str], "list[StreamingQuery]"]

_MODULE = "ottla_pipeline"


def default_name(file: Path) -> str:
    """Return the default name: `tweets` for examples/tweets/pipeline.py and for tweets.sql."""
    return file.resolve().parent.name if file.stem == "pipeline" else file.stem


def load(file: Path) -> Starter:
    """Load a file. Refuse invalid files before Spark starts, which is slow."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PipelineError(f"There is no file {file}.") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise PipelineError(f"{file} cannot be read: {reason}.") from None
    if file.suffix == ".sql":
        return _load_sql(file, text)
    if file.suffix == ".py":
        return _load_python(file, text)
    raise PipelineError(f"{file} is not a pipeline. Its name must end with .py or .sql.")


def _load_python(file: Path, text: str) -> Starter:
    try:
        code = compile(text, str(file), "exec")
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise PipelineError(f"{file}{line}: {getattr(error, 'msg', error)}.") from None
    if "pipeline" not in code.co_names:
        raise _no_function(file)

    def start(spark: SparkSession, _bootstrap_servers: str) -> list[StreamingQuery]:
        function = _execute(file, code).get("pipeline")
        if not callable(function):
            raise _no_function(file)
        return _queries(file, function(spark))

    return start


def _no_function(file: Path) -> PipelineError:
    return PipelineError(
        f"{file} has no function pipeline(spark): a pipeline defines it, and it returns the queries that it started."
    )


def _execute(file: Path, code: CodeType) -> dict[str, Any]:
    """Run the file. It may import modules from its directory."""
    from pyspark import cloudpickle

    spec = spec_from_loader(_MODULE, loader=None, origin=str(file))
    assert spec is not None
    module = module_from_spec(spec)
    module.__file__ = str(file)
    sys.modules[_MODULE] = module
    # Pickle the functions by value, because workers cannot import the file.
    cloudpickle.register_pickle_by_value(module)
    add_import_directory(file.resolve().parent)
    exec(code, module.__dict__)
    return module.__dict__


def _queries(file: Path, returned: object) -> list[StreamingQuery]:
    from pyspark.sql.streaming import StreamingQuery

    queries = list(returned) if isinstance(returned, list | tuple) else [returned]
    if not queries or not all(isinstance(query, StreamingQuery) for query in queries):
        given = "None" if returned is None else f"a {type(returned).__name__}"
        raise PipelineError(
            f"pipeline(spark) in {file} returned {given}: it must return the query that it started, or a list of them."
        )
    return queries


def _load_sql(file: Path, text: str) -> Starter:
    try:
        from ottla.sql import run_script
    except ModuleNotFoundError as error:
        raise PipelineError(f"{file} is SQL, which needs {error.name}: pip install 'ottla[spark]'.") from None

    def start(spark: SparkSession, bootstrap_servers: str) -> list[StreamingQuery]:
        queries = run_script(spark, text, bootstrap_servers=bootstrap_servers)
        if not queries:
            raise PipelineError(
                f"{file} starts no query: a pipeline has at least one CREATE … AS SELECT or INSERT INTO."
            )
        return queries

    return start
