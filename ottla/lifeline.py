"""Child processes that end when their parent does, however it ends: after a SIGKILL it cannot stop them itself.

The parent holds one end of a pipe, which is closed when the parent ends. A watcher process beside the child waits for
that at the other end, so the child can be any program, a JVM too. The watcher starts before the child's program: there
is no moment at which the parent could die unnoticed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from typing import IO

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
