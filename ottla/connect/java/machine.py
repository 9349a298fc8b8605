"""The JVM of this process. It starts once, after any fork, and lives as long as the process."""

from __future__ import annotations

import atexit
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
    """Start the JVM unless it is running. A process has only one, with the libraries of the first caller."""
    global _started_by
    try:
        import jpype
        import jpype.config
    except ImportError:
        raise ConnectError("Plugins in Java need JPype: pip install 'ottla[java-connectors]'.") from None
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
        # Ending the JVM would wait for every thread that a connector has left behind, for ever.
        jpype.config.onexit = False
        path = str(library) if library is not None else jpype.getDefaultJVMPath()
        jpype.startJVM(
            path,
            "-Xmx512m",
            "-Djava.awt.headless=true",
            # Python handles signals.
            "-Xrs",
            classpath=list(libraries.shared),
            convertStrings=True,
        )
        _started_by = os.getpid()
        atexit.register(_end_references)


def _end_references() -> None:
    """End JPype's own thread, which would call Python after its end and abort the process."""
    import jpype

    if _started_by == os.getpid():
        jpype.JClass("org.jpype.ref.JPypeReferenceQueue").getInstance().stop()


def loader(jars: tuple[str, ...]) -> Any:
    """Return the class loader for a set of jars. It sees these jars and the shared libraries."""
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
    name = class_name or plugin.class_name
    try:
        with as_context(plugin.jars):  # some classes load services in their constructor
            return load(plugin.jars, name)()
    except _java_errors() as error:
        raise ConnectError(f"The Java class {name} cannot be loaded: {error}") from error


def new_of(plugin: JavaPlugin, interface: str) -> Any:
    """Create an object of the plugin. Raises ConnectError if its class does not implement the interface."""
    import jpype

    made = new(plugin)
    if not isinstance(made, jpype.JClass(interface)):
        raise ConnectError(f"{plugin.class_name} is not a {interface.rpartition('.')[2]}.")
    return made


def load(jars: tuple[str, ...], name: str) -> Any:
    import jpype

    return jpype.JClass(name, loader=loader(jars))


def _java_errors() -> tuple[type[BaseException], ...]:
    import jpype

    return (jpype.JException, TypeError)


class as_context:
    """Sets the thread's context class loader to the plugin's, like Kafka's workers."""

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
