"""Loading of user functions from Python files and modules."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from ottla.sql.errors import SqlError
from ottla.sql.user_functions.declaring import UserFunction


def load(places: Sequence[str | Path | ModuleType | UserFunction]) -> list[UserFunction]:
    """Load functions. Each place is a file, a module name, a module or a function."""
    found: list[UserFunction] = []
    for place in places:
        if isinstance(place, UserFunction):
            found.append(place)
            continue
        module = place if isinstance(place, ModuleType) else _module(place)
        functions = [each for each in vars(module).values() if isinstance(each, UserFunction)]
        if not functions:
            raise SqlError(f"There are no functions in {place}: declare them with @udf, @udaf or @udtf.")
        for each in functions:
            each.path = str(getattr(module, "__file__", "") or place)
            if each not in found:
                found.append(each)
    return found


def _module(place: str | Path) -> ModuleType:
    path = Path(place).expanduser()
    is_file = path.suffix == ".py" or path.exists()
    try:
        module = _from_file(path) if is_file else importlib.import_module(str(place))
    except FileNotFoundError:
        raise SqlError(f"The file {place} does not exist.") from None
    except OSError as error:
        raise SqlError(f"The file {place} cannot be read: {error.strerror}.") from None
    except ModuleNotFoundError as error:
        what = f"There is no module {error.name}"
        if is_file or error.name != str(place):
            what += f", which {place} imports"
        raise SqlError(f"{what}.") from None
    except Exception as error:
        raise SqlError(f"{place} cannot be loaded{_line(error)}: {type(error).__name__}: {error}") from None
    _ship_by_value(module)
    return module


def _from_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.exists():
        raise FileNotFoundError(str(path))
    # Files with the same name are different modules.
    name = f"ottla_functions_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SqlError(f"{path} is no file of Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _line(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    return f", line {frames[-1].lineno} of {Path(frames[-1].filename).name}" if frames else ""


def _ship_by_value(module: ModuleType) -> None:
    """Pickle the module's functions by value, because Spark's workers cannot import it."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)
