"""Python programs that this process starts. None of them imports from the working directory.

`python -m MODULE` puts the working directory in front of the standard library, so a file `json.py` in a directory that
others may write to would run with our rights. `-P` turns that off for the child, PYTHONSAFEPATH for its own children.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

_PACKAGE_ROOT = str(Path(__file__).parents[1])
_SAFE_PATH = "PYTHONSAFEPATH"


def python_command(*arguments: str) -> list[str]:
    """Return the command line that runs this interpreter: `python_command("-m", "ottla", "start")`."""
    return [sys.executable, "-P", *arguments]


def python_environment() -> dict[str, str]:
    """Return this process's environment, extended so that the child finds this very Ottla, from a checkout too."""
    environment = {**os.environ, _SAFE_PATH: "1"}
    if _PACKAGE_ROOT not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [_PACKAGE_ROOT, os.environ.get("PYTHONPATH")])
        )
    return environment


def guard_workers() -> None:
    """Keep the working directory off the path of Spark's Python workers, unless it is on the path of this process.

    A script, a notebook or a pipeline beside which the user stands imports modules from there on purpose.
    """
    if {"", os.getcwd()} & set(sys.path):
        os.environ.pop(_SAFE_PATH, None)
    else:
        os.environ[_SAFE_PATH] = "1"


def add_import_directory(directory: Path) -> None:
    """Let this process import modules from a directory, but never instead of the standard library."""
    packages = sysconfig.get_path("purelib")
    at = sys.path.index(packages) if packages in sys.path else len(sys.path)
    sys.path.insert(at, str(directory))
