"""Functions of the user's own that a setting names as ``module:function``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from uuid import uuid4

from ..errors import InputError, ModelLoadError, excerpt


def is_function_name(name: str) -> bool:
    """Whether a setting names a function: ``module:function``, both dotted Python names."""
    module, colon, attribute = name.partition(":")
    parts = [*module.split("."), *attribute.split(".")]
    return bool(colon) and all(part.isidentifier() for part in parts)


def function_named(name: str, where: str) -> Callable[..., Any]:
    """The function that ``module:function`` names.

    Raises:
        InputError: it is not a function.
        ModelLoadError: there is no such module or function, or importing it failed.
    """
    module, _, attribute = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # another's module may raise anything
        fix = "Write module:function; the module is looked for in the working directory and wherever Python looks"
        raise ModelLoadError(
            f"{type(error).__name__}: {error}", where=f"{where} {name!r}", fix=fix
        ) from error
    if not callable(found):
        raise InputError(f"{name!r} is not a function", where=where, fix="Name a function")
    return found  # type: ignore[no-any-return]


def name_of(plug: Any, where: str) -> str:
    """``module:function`` of a function given in Python; a name stays as it is.

    Raises:
        InputError: the function is not found again by its name, as a lambda or one defined inside another.
    """
    if isinstance(plug, str):
        return plug
    name = f"{getattr(plug, '__module__', '')}:{getattr(plug, '__qualname__', '')}"
    if (
        not is_function_name(name)
        or getattr(sys.modules.get(plug.__module__), plug.__qualname__, None) is not plug
    ):
        fix = "Define it at the top level of a module: other processes find it there by its name"
        raise InputError(f"found {excerpt(plug)}", where=where, fix=fix)
    return name


def identity(name: str) -> str:
    """What results of a plug depend on beside its name, as a key of a cache.

    Of ``module:function`` the digest of the module's source, of ``package:model`` and of a bare name the versions of
    what is installed under these names. Where there is no source, another one every time, so that nothing is reused.
    """
    if not is_function_name(name) or name.partition(":")[0] in ("hanta", "pysbd", "spacy"):
        return " ".join(f"{part} {_version(part)}" for part in name.split(":"))
    try:
        source = inspect.getsourcefile(function_named(name, "plug"))
    except TypeError:
        source = None
    return sha256(Path(source).read_bytes()).hexdigest() if source else str(uuid4())


def _version(package: str) -> str:
    try:
        return version(package.replace("_", "-"))
    except PackageNotFoundError:
        return ""
