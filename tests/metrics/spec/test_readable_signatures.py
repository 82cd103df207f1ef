"""What help() and repr() show of settings: names, types and defaults as a person would write them."""

from __future__ import annotations

import inspect
import pydoc
from dataclasses import field
from typing import Annotated

import pytest

import discorank
from discorank import Budget, MBRDecoder, Reranker, load_metric, settings
from discorank.metrics.names import BUILT_IN
from discorank.metrics.spec.checked_settings import Field


@settings
class Own:
    size: Annotated[int, Field(ge=1)]
    names: Annotated[tuple[str, ...], Field(max_length=3)] | None = None
    more: dict[str, int] = field(default_factory=dict)
    hidden: str = field(default="x", kw_only=True)


SHOWN = "(size: int, names: tuple[str, ...] | None = None, more: dict[str, int] = <factory>, *, hidden: str = 'x')"


def test_a_signature_is_what_was_declared() -> None:
    assert str(inspect.signature(Own)) == SHOWN
    Own(1)  # builds the checks
    assert str(inspect.signature(Own)) == SHOWN
    assert str(inspect.signature(Own.__init__)) == "(self, *args, **kwargs)"


@pytest.mark.parametrize("shown", [MBRDecoder, Reranker, Budget])
def test_help_begins_with_a_readable_signature(shown: type) -> None:
    load_metric("chrf")
    page = pydoc.plain(pydoc.render_doc(shown))
    signature = page.splitlines()[3]
    assert signature.startswith(f" |  {shown.__name__}(")
    for inside in ("Annotated", "Field(", "args: "):
        assert inside not in signature
    constructor = page[page.index("__init__(") :].splitlines()[:2]
    assert constructor == ["__init__(self, *args, **kwargs)", " |      Checks the settings."]


def test_every_metric_has_a_readable_signature() -> None:
    assert len(BUILT_IN) > 10
    for name in ("chrf", "bleu", "ter", "rouge-l"):
        signature = str(inspect.signature(type(load_metric(name))))
        assert "Annotated" not in signature
    assert "stemmer: bool = " in str(inspect.signature(type(load_metric("rouge-l"))))


def test_settings_print_what_was_changed() -> None:
    assert repr(load_metric("chrf")) == "ChrF()"
    expected = "MBRDecoder(utility=ChrF(beta=3.0), choice=Choice(nbest=2))"
    assert repr(MBRDecoder("chrf(beta=3)", nbest=2)) == expected
    assert repr(Own(2, hidden="y")).startswith("Own(size=2, ")
    assert repr(Own(2, hidden="y")).endswith("hidden='y')")


def test_a_class_keeps_its_own_repr() -> None:
    @discorank.settings
    class Named:
        name: str

        def __repr__(self) -> str:
            return self.name

    assert repr(Named("n")) == "n"
