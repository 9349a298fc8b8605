"""Child processes that end when their parent does, however it ends: nobody can clean up after a SIGKILL.

A child holds one end of a pipe and its parent the other, which closes with the parent. What waits for that is a process
beside the child, so that the child may be anything, a JVM too. It is there before the child's program is: there is no
moment at which the parent could die unnoticed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from typing import IO

# The program takes the place of the first process, whose id the caller knows. The second one sees the pipe end, and
# makes sure that the first is still its parent: the id of one that has ended may be another's by then.
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
    """Run a program, named by its path, that does not outlive this process. What it says goes to the log."""
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
