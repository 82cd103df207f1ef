"""Where the discourse tree of a text comes from: the text itself, a file of trees, or a parser.

The parsers of isanlp_rst are for those who have it: large models in place of the small one that ships here.
It is not installed with discorank; on its first use it fetches its model (CC BY-NC 4.0) from the hub. The version that
was fetched is not part of a metric's signature: keep it yourself, or parse once and bring a file of trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, Protocol

from ..errors import InputError, ModelLoadError, excerpt
from ..storage.checksums import MARK, path_of
from ..text.texts import Document, Text
from .formats.tree_files import read_isanlp, read_trees
from .trees import Tree, check_tree, check_words, joined, letters, letters_of

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


class TreeFile:
    """Trees found by the words they stand over.

    Raises:
        InputError: as `read_trees`, or two trees over the same words differ.
    """

    def __init__(self, spec: str) -> None:
        self.path = path_of(spec)
        self.trees: dict[str, Tree] = {}
        for i, tree in enumerate(read_trees(self.path), 1):
            key = letters_of(tree)
            if self.trees.setdefault(key, tree) != tree:
                problem = f"a second tree over {excerpt(key)}"
                where = f"{self.path}, tree {i}"
                raise InputError(problem, where=where, fix="Give one tree per text")

    def tree(self, text: str) -> Tree | None:
        """The tree of a text, or None."""
        return self.trees.get(letters(text))


class Parses(Protocol):
    """A discourse parser."""

    def document(self, text: str | Sequence[str]) -> Tree:
        """The tree of a text, or of given sentences."""


ParserName = Literal["english", "isanlp", "none"]


def _parser(name: ParserName, weights: str | None) -> Parses | None:
    """The parser of this name, imported and loaded on its first use; None for "none"."""
    if name == "english":
        from .parser.parser import loaded

        return loaded(*weights.split(MARK)) if weights else loaded()
    if name == "isanlp":
        pass  # FUSED: lazy import gone

        return isanlp()
    return None


class TreeSource:
    """The tree of any text."""

    def __init__(
        self,
        file: TreeFile | None,
        parser: ParserName,
        weights: str | None = None,
    ) -> None:
        self.file, self.parser, self.weights = file, parser, weights

    def tree(self, text: Text) -> Tree:
        """Its own tree, else that of the file, else the parser's; sentences are joined.

        Raises:
            InputError: there is none, or it is broken, or its words are not the text's.
            ModelLoadError: the parser is not there.
        """
        own_tree = text.rst if isinstance(text, Document) else None
        if own_tree is not None:
            where = f"rst of {excerpt(str(text))}"
            tree = check_tree(own_tree, where)
            check_words(tree, str(text), where)
            return tree
        if self.file is not None:
            return _in_file(self.file, text)
        if not str(text).strip():
            return ()
        parser = _parser(self.parser, self.weights)
        if parser is None:
            fix = 'Give Document(rst=...) or a file trees=..., or parser="english" for English'
            raise InputError(f"no tree for {excerpt(str(text))}", where="rst", fix=fix)
        if isinstance(text, Document):
            return parser.document(list(text.sentences))
        return parser.document(str(text))


def _in_file(file: TreeFile, text: Text) -> Tree:
    """The tree of the whole text, or those of its sentences joined."""
    if not str(text).strip():
        return ()
    whole = file.tree(str(text))
    if whole is not None:
        return whole
    sentences = text.sentences if isinstance(text, Document) else [str(text)]
    trees = [file.tree(sentence) for sentence in sentences]
    known = [tree for tree in trees if tree is not None]
    if len(known) < len(trees):
        problem = f"no tree for {excerpt(str(text))}"
        raise InputError(problem, where=file.path, fix="Add a tree of its words")
    return joined(known)
