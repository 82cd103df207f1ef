"""The parsers of isanlp_rst, for those who have it: its large models in place of the small one that ships here.

It is not installed with discorank; on its first use it fetches its model (CC BY-NC 4.0) from the hub. The version that
was fetched is not part of a metric's signature: keep it yourself, or parse once and bring a file of trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ..errors import InputError, ModelLoadError, excerpt
from .formats.isanlp_units import read_isanlp
from .trees import Tree, check_tree, check_words

MODEL, VERSION, CPU = "tchewik/isanlp_rst_v3", "gumrrg", -1


class Isanlp:
    """A loaded parser of isanlp_rst."""

    def __init__(self, parser: Any) -> None:
        self.parser = parser

    def document(self, text: str | Sequence[str]) -> Tree:
        """The tree of a text.

        Raises:
            InputError: isanlp_rst gave something else than one tree over the text.
        """
        whole = text if isinstance(text, str) else " ".join(text)
        answer = self.parser(whole)
        units = answer.get("rst") if isinstance(answer, dict) else None
        if not units:
            problem = f"isanlp_rst gave {excerpt(answer)}"
            raise InputError(problem, where=excerpt(whole), fix="Expected {'rst': [tree]}")
        tree = check_tree(read_isanlp(units[0]))
        check_words(tree, whole, "isanlp_rst")
        return tree


@cache
def isanlp() -> Isanlp:
    """Its parser of English (trained on GUM), on the CPU.

    Raises:
        ModelLoadError: isanlp_rst is not installed, or cannot load its model.
    """
    try:
        from isanlp_rst.parser import Parser  # type: ignore[import-not-found]

        return Isanlp(Parser(hf_model_name=MODEL, hf_model_version=VERSION, cuda_device=CPU))
    except Exception as error:  # another's package may raise anything
        problem = f"{type(error).__name__}: {error}"
        fix = 'Install isanlp_rst, or use parser="english"'
        raise ModelLoadError(problem, where="parser isanlp", fix=fix) from error
