"""The Java machine of this process. It is started once, after any fork, and never ends before the process does."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from ottla.connect.errors import ConnectError
from ottla.connect.java.jars import JavaPlugin, Libraries
from ottla.jvm.java import NoJava, java_home

_lock = threading.Lock()
_loaders: dict[tuple[str, ...], Any] = {}
_started_by = 0


def start(libraries: Libraries) -> None:
    """Does nothing if it runs already: a process has one, with the libraries of the first that asked."""
    global _started_by
    try:
        import jpype
    except ImportError:
        raise ConnectError("Connectors in Java need JPype: pip install 'ottla[java-connectors]'.") from None
    with _lock:
        if jpype.isJVMStarted():
            if _started_by not in (0, os.getpid()):
                raise ConnectError("Java was started before this process was forked off, and cannot be used.")
            return
        try:
            home = java_home()
        except NoJava as error:
            raise ConnectError(str(error)) from None
        library = next((home / "lib").rglob("libjvm.*"), None) or next(home.rglob("libjvm.*"), None)
        path = str(library) if library is not None else jpype.getDefaultJVMPath()
        jpype.startJVM(
            path,
            "-Xmx512m",
            "-Djava.awt.headless=true",
            # Signals belong to Python.
            "-Xrs",
            classpath=list(libraries.shared),
            convertStrings=True,
        )
        _started_by = os.getpid()


def loader(jars: tuple[str, ...]) -> Any:
    """A class loader of its own for each set of jars, which sees them and what is shared."""
    import jpype

    with _lock:
        found = _loaders.get(jars)
        if found is None:
            urls = [jpype.java.io.File(str(Path(jar).absolute())).toURI().toURL() for jar in jars]
            array = jpype.JArray(jpype.java.net.URL)(urls)
            parent = jpype.java.lang.ClassLoader.getSystemClassLoader()
            found = _loaders[jars] = jpype.java.net.URLClassLoader(array, parent)
        return found


def new(plugin: JavaPlugin, class_name: str | None = None) -> Any:
    """An instance of the plugin's class, or of another one of its jars."""
    name = class_name or plugin.class_name
    try:
        with as_context(plugin.jars):  # some look for services while they are made
            return load(plugin.jars, name)()
    except _java_errors() as error:
        raise ConnectError(f"The Java class {name} cannot be loaded: {error}") from error


def load(jars: tuple[str, ...], name: str) -> Any:
    import jpype

    return jpype.JClass(name, loader=loader(jars))


def _java_errors() -> tuple[type[BaseException], ...]:
    import jpype

    return (jpype.JException, TypeError)


class as_context:
    """While it is entered, the thread's context class loader is that of the plugin, as Kafka's workers do."""

    def __init__(self, jars: tuple[str, ...]) -> None:
        self._jars = jars

    def __enter__(self) -> None:
        import jpype

        thread = jpype.java.lang.Thread.currentThread()
        self._before = thread.getContextClassLoader()
        thread.setContextClassLoader(loader(self._jars))

    def __exit__(self, *_: object) -> None:
        import jpype

        jpype.java.lang.Thread.currentThread().setContextClassLoader(self._before)
