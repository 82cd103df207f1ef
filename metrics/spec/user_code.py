"""Code that settings name, ``module:function``, and which code a file may name: that of modules allowed, and no other.

Metrics and settings may name code, which is imported and called: ``module:Class``, ``module:function``, and
``spacy:MODEL``, the package of a model. In Python, on the command line and in a configuration file such a name is the
user's own. In data (a combination, a run file, a stage of a training job) it is somebody else's: it is refused before
anything is imported, unless the user allows its module. A module that is allowed opens no other: what it has imported
itself stays closed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

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
    """The part of a cache's key on which results of a function or package depend beside its name.

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


SPACY = "spacy"
_SHOWN = 100  # characters of a name in errors
# Kinds of names that look like functions and are none, by the setting that knows them.
_TAGGERS_AND_RULES = {("nouns", "hanta"), ("nouns", "wordfreq"), ("sentences", "pysbd")}


class CodeRefusedError(InputError):
    """A file names code that was not allowed."""


class AllowedCode(NamedTuple):
    """Code that a file may name.

    Args:
        modules: names of modules, which stand for their submodules too.
        plug_ins: whether metrics count that installed packages registered under a plain name.
        users_own: whether it is not a file's but the user's own word: then it may say where texts and keys are sent.
    """

    modules: tuple[str, ...] = ()
    plug_ins: bool = True
    users_own: bool = False

    @classmethod
    def of(cls, modules: str | Sequence[str], plug_ins: bool = True) -> AllowedCode:
        """Code that is allowed, by names of modules.

        Raises:
            InputError: a name is none of a module.
        """
        names = (modules,) if isinstance(modules, str) else tuple(modules)
        for name in names:
            if not isinstance(name, str) or not all(map(str.isidentifier, name.split("."))):
                fix = "Give names of modules, such as mymetrics or mypackage.metrics"
                raise InputError(f"found {excerpt(name)}", where="allow_code", fix=fix)
        return cls(names, plug_ins)

    def has(self, module: str) -> bool:
        """Whether a module is allowed."""
        return any(f"{module}.".startswith(f"{allowed}.") for allowed in self.modules)

    def check(self, name: str) -> None:
        """Raises CodeRefusedError unless the module of ``module:attribute`` is allowed; imports nothing."""
        module = name.partition(":")[0]
        if not self.has(module):
            raise refused(f"names the code {_short(name)!r}, which is not allowed", module)

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Imports the functions that settings name, and nothing that is not allowed.

        Raises:
            CodeRefusedError: one is not allowed.
            ModelLoadError: one cannot be imported.
        """
        for name in code_in(settings):
            self.check(name)
            if not name.startswith(f"{SPACY}:"):
                self.check_home(function_named(name, "function"), name)

    def check_home(self, target: Any, name: str) -> None:
        """Raises CodeRefusedError unless an imported class or function is of an allowed module, not imported there."""
        home = getattr(target, "__module__", None)
        if not isinstance(home, str):
            home = type(target).__module__
        if not self.has(home):
            raise refused(
                f"names {_short(name)!r}, which is code of {home!r}, and that is not allowed", home
            )


NO_CODE = AllowedCode()


def refused(problem: str, module: str) -> CodeRefusedError:
    """The error for code of a module that is not allowed."""
    fix = (
        f"If you trust the file and that module: --allow-code {_short(module)}, or in Python "
        f'load_metric(..., allow_code=("{_short(module)}",))'
    )
    return CodeRefusedError(problem, fix=fix)


def code_in(settings: Mapping[str, Any]) -> Iterator[str]:
    """Every name of code among settings, however deep.

    >>> list(code_in({"nouns": "hanta:en", "k": [{"f": "os:system"}], "model": "spacy:./x"}))
    ['spacy:./x', 'os:system']
    """
    rest: list[Any] = []
    for setting, value in settings.items():
        is_text = isinstance(value, str)
        if is_text and (setting, value.partition(":")[0]) in _TAGGERS_AND_RULES:
            continue
        rest.append(value)
    while rest:
        value = rest.pop()
        if isinstance(value, str) and _is_code(value):
            yield value
        elif isinstance(value, Mapping):
            rest += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            rest += value


def _is_code(text: str) -> bool:
    return is_function_name(text) or text.startswith(f"{SPACY}:")


def _short(name: str) -> str:
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
