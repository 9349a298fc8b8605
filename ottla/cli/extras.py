"""Parts of Ottla that need more packages than the plain install has, and the extra that brings them."""

from __future__ import annotations

from importlib.util import find_spec

from ottla.cli.errors import JobError

# Parts that need each extra, and modules of the extra.
_EXTRAS = {
    "registry": ("The schema registry", ("httptools", "jsonschema_rs", "google.protobuf")),
    "rest": ("The REST proxy", ("httptools", "aiokafka", "fastavro", "jsonschema_rs", "google.protobuf")),
    "console": ("The console", ("httptools", "jinja2", "msgspec")),
    "spark": ("Spark", ("pyspark", "pyarrow", "sqlglot", "prompt_toolkit", "lmdb", "numba", "numpy", "h2", "wsproto")),
    "connect": ("Connect", ("httptools", "pyspark")),
    "java-connectors": ("Connectors in Java", ("jpype",)),
    "delta": ("Delta tables", ("deltalake",)),
    "kerberos": ("Logins with Kerberos", ("gssapi",)),
}  # fmt: skip


def require(extra: str) -> None:
    """Raise JobError with the command to type if packages of the extra are missing."""
    what, modules = _EXTRAS[extra]
    if any(not _is_installed(module) for module in modules):
        raise JobError(f"{what} needs packages that are not installed: {_command(extra)}.")


def missing_package(error: ModuleNotFoundError) -> str | None:
    """Return a sentence for a module that an extra would have brought; None for any other."""
    name = error.name or ""
    for extra, (_, modules) in _EXTRAS.items():
        if any(name == module or name.startswith(f"{module}.") for module in modules):
            return f"This needs the package {name}, which is not installed: {_command(extra)}."
    return None


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even its parent
        return False


def _command(extra: str) -> str:
    return f"pip install 'ottla[{extra}]'"
