"""Similarity of discourse trees by all-subtree kernels (Guzmán et al. 2014; Joty et al. 2014, 2017), 0 to 1.

    s(h, r) = K(h, r) / sqrt(K(h, h) K(r, r)),   K(a, b) = sum_f decay^|f| c_f(a) c_f(b)
over the fragments f of one representation of both texts' discourse trees: `dr` (also `dr-nolex`) relations and
nuclearity without words, `dr-lex` with the words below; in `dr-lex-1.1` words match within EDUs of one nuclearity
only, in `dr-lex-2` within spans of one relation, in `dr-lex-2.1` both (our reading: the papers do not draw these
trees). `discotk-light` is the plain mean of the five. Symmetric, 1 for equal trees, higher is better; an empty text is
a tree of one empty EDU. Of several references the best counts.

`decay`: 1 is the papers' text, but then an EDU of m words has about 2^m fragments, one changed word takes away nearly
all of them, and most values are near 0; 0.4 keeps values graded. Trees come from `Document(rst=...)`, else from the
file `trees`, else from the English parser that ships with discorank; a text of several sentences is a Joint of their
trees.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from ..base import Metric
from ..errors import InputError
from ..papers import GUZMAN_2014, JOTY_2014, JOTY_2017, Paper
from ..representations import Block, FloatArray, IntArray, Ragged, Reps
from ..scorer import Info, Scorer
from ..spec.checked_settings import settings
from ..spec.digests import check_file
from ..text.texts import Item
from .kernel_matrix import kernels
from .labelled_trees import REPRESENTATIONS, Lexical, Reading, represent
from .subtrees import COLUMNS, columns
from .tree_sources import ParserName, TreeFile, TreeSource
from .trees import shown

MAX_NODES = 1000  # K of a tree of n nodes is below n^2 2^n: up to here no kernel overflows
Representation = Lexical | Literal["bare", "words"]


@settings
class TreeKernel(Metric):
    """What all tree kernels share.

    Args:
        decay: weight of a fragment per expanded node, above 0; 1 counts all fragments alike.
        lowercase: whether words are compared in lower case.
        binarize: "right" cuts nodes of more than two children into right-branching pairs; null keeps them.
        relations: "coarse" compares the 18 classes of RST-DT, "raw" the names as given.
        trees: a file of trees (.dis, .rs3, JSON), found by their words; with it, every text needs its tree.
        parser: what parses texts without a tree: "english" (ships with discorank), "isanlp" (isanlp_rst, if you have
            it); "none" refuses them.
        weights: a file of `discorank train rst` that "english" uses in place of its own.
    """

    decay: Annotated[float, Field(gt=0, le=1)] = 0.4
    lowercase: bool = True
    binarize: Literal["right"] | None = "right"
    relations: Literal["coarse", "raw"] = "coarse"
    trees: str | None = None
    parser: ParserName = "english"
    weights: str | None = None
    name: ClassVar[str] = "tree kernel"
    info: ClassVar[Info] = Info(summary="any tree kernel")

    def __post_init__(self) -> None:
        for name in ("trees", "weights"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_file(getattr(self, name)))
        if self.weights is not None and self.parser != "english":
            raise InputError(
                f"weights beside parser={self.parser!r}",
                where=self.name,
                fix="Leave one of them out",
            )

    @property
    @abstractmethod
    def representations(self) -> tuple[Representation, ...]:
        """The representations whose kernels are averaged."""

    def for_language(self, lang: str) -> Self:
        """Without the English parsers for other languages: then texts need their trees, or weights of their own."""
        english = lang.lower().partition("-")[0] in ("en", "eng")
        return self if english or self.weights else replace(self, parser="none")

    def load(self) -> TreeKernelScorer:
        """The scorer; the parser is loaded when the first text needs it."""
        return TreeKernelScorer(self)


KERNEL_PAPERS = (GUZMAN_2014, JOTY_2017)


def _info(summary: str, papers: tuple[Paper, ...] = KERNEL_PAPERS) -> Info:
    return Info(summary=summary, papers=papers, unit="document", bounds=(0, 1), symmetric=True)


@settings
class DR(TreeKernel):
    """Relations and nuclearity, no words."""

    name: ClassVar[str] = "dr"
    info: ClassVar[Info] = _info("discourse tree kernel: relations and nuclearity")

    @property
    def representations(self) -> tuple[Representation, ...]:
        """DR alone."""
        return ("bare",)


@settings
class DRLex(TreeKernel):
    """Relations, nuclearity and words.

    Args:
        words: where words match: "anywhere", or in EDUs of one "nuclearity", spans of one "relation", or "both".
        ignore: what is left out of the tree: "nothing", "relations", "nuclearity", "both", or "tree": all but words.
    """

    words: Literal["anywhere", "nuclearity", "relation", "both"] = "anywhere"
    ignore: Literal["nothing", "relations", "nuclearity", "both", "tree"] = "nothing"
    name: ClassVar[str] = "dr-lex"
    info: ClassVar[Info] = _info("discourse tree kernel: relations, nuclearity and words")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ignore == "tree" and self.words != "anywhere":
            found = f"words={self.words!r} beside ignore='tree'"
            raise InputError(found, where=self.name, fix="Leave one of them out")

    @property
    def representations(self) -> tuple[Representation, ...]:
        """DR-LEX or a variant of it."""
        if self.ignore == "tree":
            return ("words",)
        nuc, rel = (
            self.ignore not in ("nuclearity", "both"),
            self.ignore not in ("relations", "both"),
        )
        leaf_nuc, leaf_rel = (
            self.words in ("nuclearity", "both"),
            self.words in ("relation", "both"),
        )
        return (Lexical(nuc, rel, leaf_nuc, leaf_rel),)


@settings
class DiscoTKLight(TreeKernel):
    """The mean of five kernels: `dr`, `dr-lex`, `dr-lex-1.1`, `dr-lex-2`, `dr-lex-2.1`."""

    name: ClassVar[str] = "discotk-light"
    info: ClassVar[Info] = _info("mean of the five discourse tree kernels", (JOTY_2014, JOTY_2017))

    @property
    def representations(self) -> tuple[Representation, ...]:
        """All five."""
        return tuple(
            REPRESENTATIONS[name] for name in ("DR", "DR-LEX", "DR-LEX1.1", "DR-LEX2", "DR-LEX2.1")
        )


class TreeKernelScorer(Scorer):
    """Represents a text by the distinct subtrees of its representations and its own kernel."""

    def __init__(self, metric: TreeKernel) -> None:
        self.info, self.metric = metric.info, metric
        self.reading = Reading(
            metric.lowercase, metric.binarize is not None, metric.relations == "coarse"
        )
        file = TreeFile(metric.trees) if metric.trees else None
        self.source = TreeSource(file, metric.parser, metric.weights)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """The subtrees of every representation, and their number.

        Raises:
            InputError: a text has no tree, or its tree is broken or has other words.
        """
        trees = [self.source.tree(item.text) for item in items]
        lines = [
            np.frombuffer(shown(tree).encode("utf-8", "surrogatepass"), np.uint8) for tree in trees
        ]
        found: dict[str, Ragged | IntArray] = {"shown": Ragged.of_rows(lines)}
        lengths = np.zeros(len(items), np.int64)
        for i, how in enumerate(self.metric.representations):
            own, sizes = columns([represent(tree, how, self.reading) for tree in trees])
            found |= {f"{i}.{name}": column for name, column in own.items()}
            found[f"{i}.size"] = sizes
            lengths += sizes
        return Reps(found), lengths

    def represent(self, prepared: Reps) -> Reps:
        """Adds half the logarithm of every tree's own kernel, and its square root where a float64 holds it."""
        added = dict(prepared.columns)
        alone = [Block(row, row) for row in np.arange(len(prepared))[:, None]]
        for i in range(len(self.metric.representations)):
            own, big = _part(prepared, i), prepared[f"{i}.size"] > MAX_NODES
            root, half = np.ones(len(alone)), np.zeros(len(alone))
            for log, rows in ((False, np.flatnonzero(~big)), (True, np.flatnonzero(big))):
                found = kernels(own, [alone[row] for row in rows], self.metric.decay, log)
                values = np.array([k[0, 0] for k in found])
                half[rows] = (values if log else np.log(values)) / 2
                root[rows] = 1 if log else np.sqrt(values)
            added |= {f"{i}.root": root, f"{i}.half": half}
        return Reps(added)

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The mean of the normalised kernels, [H, R] of every block."""
        parts = [self._normalised(reps, i, blocks) for i in range(len(self.metric.representations))]
        return [sum(values[1:], values[0]) / len(parts) for values in zip(*parts, strict=True)]

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The discourse trees of a pair."""
        rows = {
            "hypothesis": block.hypotheses[[hypothesis]],
            "reference": block.references[[reference]],
        }
        return {
            f"{side} tree": bytes(reps["shown"][row].values).decode("utf-8", "replace")
            for side, row in rows.items()
        }

    def _normalised(self, reps: Reps, i: int, blocks: Sequence[Block]) -> list[FloatArray]:
        own, decay, big = _part(reps, i), self.metric.decay, reps[f"{i}.size"] > MAX_NODES
        root, half = reps[f"{i}.root"], reps[f"{i}.half"]
        found = [
            np.minimum(k / (root[b.hypotheses][:, None] * root[b.references]), 1)
            for k, b in zip(kernels(own, blocks, decay), blocks, strict=True)
        ]
        for n, b in enumerate(blocks):
            large = big[b.hypotheses][:, None] | big[b.references]
            if large.any():
                k = kernels(own, [b], decay, log=True)[0] - (
                    half[b.hypotheses][:, None] + half[b.references]
                )
                found[n] = np.where(large, np.minimum(np.exp(k), 1), found[n])
        return found


def _part(reps: Reps, i: int) -> dict[str, Ragged]:
    return {name: reps[f"{i}.{name}"] for name in COLUMNS}
