"""Python programs that this process starts: they import nothing from the working directory, and end with it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

# Child processes that end when their parent does, however it ends: after a SIGKILL it cannot stop them itself.
#
# The parent holds one end of a pipe, which is closed when the parent ends. A watcher process beside the
# child waits for that at the other end, so the child can be any program, a JVM too. The watcher starts
# before the child's program: there is no moment at which the parent could die unnoticed.

# The first process becomes the program, so the caller knows its id. The second is the watcher. Before it kills it makes
# sure that the first is still its parent: the id of a process that has ended may belong to another one.
_WATCH_AND_RUN = """
import os, signal, sys
child = os.getpid()
null = os.open(os.devnull, os.O_RDWR)
if os.fork() == 0:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.read(0, 1)
    if os.getppid() == child:
        os.kill(child, signal.SIGKILL)
    os._exit(0)
os.dup2(null, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def start_child(
    command: Sequence[str], log: IO[bytes], *, env: Mapping[str, str] | None = None, new_session: bool = False
) -> subprocess.Popen[bytes]:
    """Run a program, given by its path, that does not outlive this process. Its output goes to the log."""
    its_end, our_end = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WATCH_AND_RUN, *command],
            stdin=its_end,
            stdout=log,
            stderr=log,
            env=env,
            start_new_session=new_session,
        )
    except BaseException:
        os.close(our_end)
        raise
    finally:
        os.close(its_end)
    weakref.finalize(process, os.close, our_end)
    return process


# Python programs that this process starts. None of them imports from the working directory.
#
# `python -m MODULE` puts the working directory in front of the standard library, so a file `json.py` in a
# directory that others may write to would run with our rights. `-P` turns that off for the child,
# PYTHONSAFEPATH for its own children.

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
