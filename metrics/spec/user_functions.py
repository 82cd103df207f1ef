"""Functions of the user's own that a setting names as ``module:function``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import InputError, ModelLoadError, excerpt


def is_function_name(name: str) -> bool:
    """Whether a setting names a function: ``module:function``, both dotted Python names."""
    module, colon, attribute = name.partition(":")
    parts = [*module.split("."), *attribute.split(".")]
    return bool(colon) and all(part.isidentifier() for part in parts)


def user_module(name: str) -> ModuleType:
    """A module of the user's own, looked for in the working directory too, behind all else.

    Before the first one is asked for, nothing is imported from there: a folder that came from somebody else may hold
    modules with the names of packages that are not installed.
    """
    if "" not in sys.path:
        sys.path.append("")
    return import_module(name)


def function_named(name: str, where: str) -> Callable[..., Any]:
    """The function that ``module:function`` names.

    Raises:
        InputError: it is not a function.
        ModelLoadError: there is no such module or function, or importing it failed.
    """
    module, _, attribute = name.partition(":")
    try:
        function: Any = user_module(module)
        for part in attribute.split("."):
            function = getattr(function, part)
    except (Exception, SystemExit) as error:  # another's module may raise anything, or leave
        fix = "Write module:function; the module is looked for in the working directory and wherever Python looks"
        raise ModelLoadError(
            f"{type(error).__name__}: {error}",
            where=f"{where} {name!r}",
            fix=fix,
        ) from error
    if not callable(function):
        raise InputError(f"{name!r} is not a function", where=where, fix="Name a function")
    return function  # type: ignore[no-any-return]


def name_of(function: Any, where: str) -> str:
    """``module:function`` of a function given in Python; a name stays as it is.

    Raises:
        InputError: the function cannot be imported by its name, as a lambda or one defined inside another.
    """
    if isinstance(function, str):
        return function
    name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    if not is_function_name(name) or not _is_importable(function):
        fix = "Define it at the top level of a module: other processes find it there by its name"
        raise InputError(f"found {excerpt(function)}", where=where, fix=fix)
    return name


def _is_importable(function: Any) -> bool:
    """Whether the function's name leads to it in its module."""
    module = sys.modules.get(function.__module__)
    return getattr(module, function.__qualname__, None) is function


def identity(name: str) -> str:
    """What the results of a function or package depend on beside its name, as part of a cache's key.

    For ``module:function`` the digest of the module's source; for ``package:model`` and for a bare name the versions of
    what is installed under these names. Without a source it is different every time, so that nothing is reused.
    """
    if not is_function_name(name) or name.partition(":")[0] in (
        "hanta",
        "pysbd",
        "spacy",
        "wordfreq",
    ):
        return " ".join(f"{part} {_version(part)}" for part in name.split(":"))
    import inspect
    from uuid import uuid4

    try:
        source = inspect.getsourcefile(function_named(name, "plug"))
    except TypeError:
        source = None
    return sha256(Path(source).read_bytes()).hexdigest() if source else str(uuid4())


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package.replace("_", "-"))
    except PackageNotFoundError:
        return ""
