"""discorank chooses the best of several candidate texts with document-level and discourse metrics.

    >>> import discorank
    >>> discorank.decode(["a cat sat", "the cat sat", "a dog"], utility="chrf").text
    'the cat sat'

The public names stand in ``__init__.pyi``. Each is imported when it is first used, so that ``import discorank`` loads
neither numpy nor torch. ``discorank.metrics`` and ``discorank.rerank`` are packages, and functions of `functions` too.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import lazy_loader

from .metrics.names import register

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


class _PackageAndFunction(ModuleType):
    """A package that is called as the function of its name."""

    @property
    def _function(self) -> Any:
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(f"{__name__}.functions"), name)

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """What the function returns."""
        return self._function(*args, **settings)

    @property
    def __signature__(self) -> Any:
        """That of the function."""
        from inspect import signature

        return signature(self._function)


# Metrics of the package above that of metrics, which cannot name them itself.
_SERVER = f"{__name__}.integrations.server.score_server"
_JUDGE = f"{__name__}.integrations.judges.judge"
register("score-server", f"{_SERVER}:ScoreServer")
register("score-server-qe", f"{_SERVER}:ScoreServerQE")
register("reward-server", f"{_SERVER}:RewardServer")
register("judge", f"{_JUDGE}:JudgeWithReference")
register("doc-judge", f"{_JUDGE}:JudgeWithReference", context=2)
register("judge-qe", f"{_JUDGE}:JudgeWithoutReference")
register("doc-judge-qe", f"{_JUDGE}:JudgeWithoutReference", context=2)

for _name in ("metrics", "rerank"):
    import_module(f"{__name__}.{_name}")
    sys.modules[f"{__name__}.{_name}"].__class__ = _PackageAndFunction
