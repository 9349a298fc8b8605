"""Spark home whose Python processes import PySpark's files instead of its archive.

Spark puts SPARK_HOME/python/lib/pyspark.zip first on the path of its Python processes. Modules from an archive are
compiled again in each process, which takes two fifths of its start, and a streaming query starts one per source. In
this home, directories with links to the installed, compiled packages replace the archives. Everything else links to the
installed PySpark.

YARN and Kubernetes send the archives to other machines, so they use PySpark's own home.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from ottla.jvm.java import cache_directory, link


@contextmanager
def quick_home(master: str) -> Iterator[None]:
    """Start Spark in such a home within the context. A SPARK_HOME set by the user stays."""
    home = None
    if master.startswith(("local", "spark:")) and "SPARK_HOME" not in os.environ:
        home = linked_home(cache_directory())
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def linked_home(cache: Path) -> Path | None:
    """Create the home. Return None if PySpark is not a wheel or the cache is not writable; Spark then starts slowly."""
    spark = _package("pyspark")
    if spark is None or not (spark / "python" / "lib" / "pyspark.zip").is_file():
        return None
    # One home per location, because each virtual environment has its own PySpark.
    home = cache / f"spark-{sha256(bytes(spark)).hexdigest()[:8]}"
    archives = home / "python" / "lib"
    try:
        archives.mkdir(parents=True, exist_ok=True)
        for name in ("bin", "jars", "sbin", "conf"):
            if (spark / name).is_dir():
                link(home / name, spark / name)
        for archive in (spark / "python" / "lib").glob("*.zip"):
            package = _package(archive.name.partition("-")[0].removesuffix(".zip"))
            if package is None:
                link(archives / archive.name, archive)
            else:
                (archives / archive.name).mkdir(exist_ok=True)
                link(archives / archive.name / package.name, package)
    except OSError:
        return None
    return home


def _package(name: str) -> Path | None:
    spec = find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent
