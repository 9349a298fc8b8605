"""A home of Spark whose Python processes start from PySpark's files instead of its archive.

Spark puts SPARK_HOME/python/lib/pyspark.zip before everything else on the path of its Python processes. What comes from
an archive is compiled anew in each of them, two fifths of the time that one needs to start, and a streaming query
starts one for each of its sources. In this home the names of the archives are directories with links to the installed
packages, whose files are compiled already. Everything else in it is a link to the installed PySpark.

YARN and Kubernetes hand the archives to other machines, so they get the home that PySpark has.
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
    """Within it Spark is started in such a home; what the user has set as SPARK_HOME stays."""
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
    """None if PySpark is not installed as a wheel, or the cache cannot be written: then it is as slow as always."""
    spark = _package("pyspark")
    if spark is None or not (spark / "python" / "lib" / "pyspark.zip").is_file():
        return None
    # One for each place, because each virtual environment has a PySpark of its own.
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
