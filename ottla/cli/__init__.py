"""The `ottla` command."""

import sys
from types import TracebackType


def _quiet_ctrl_c(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ctrl-C while a tool is still being loaded ends it without a traceback."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


if sys.excepthook is sys.__excepthook__:
    sys.excepthook = _quiet_ctrl_c
