"""Similarity of discourse trees by all-subtree kernels (Guzmán et al. 2014; Joty et al. 2014, 2017), 0 to 1.

    s(h, r) = K(h, r) / sqrt(K(h, h) K(r, r)),   K(a, b) = sum_f decay^|f| c_f(a) c_f(b)
over the fragments f of one representation of both texts' discourse trees: `dr` (also `dr-nolex`) relations and
nuclearity without words, `dr-lex` with the words below. By `dr-lex(words=...)` words match within EDUs of one
"nuclearity" only (DR-LEX1.1), within spans of one "relation" (DR-LEX2), or "both" (DR-LEX2.1; our reading: the papers
do not draw these trees). `discotk-light` is the plain mean of the five. Symmetric, 1 for equal trees, 0 where a tree
has no fragment, higher is better; an empty text is a tree of one empty EDU. Of several references the best counts.

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

from ..base import Metric
from ..errors import InputError, excerpt
from ..representations import Block, FloatArray, IntArray, Ragged, Reps
from ..scorer import Info, Scorer
from ..spec.checked_settings import Field, settings
from ..storage.checksums import MARK, check_file, path_of
from ..text.texts import Document, Item, Text
from .kernel_matrix import COLUMNS, columns, kernels
from .tree_files import read_trees
from .trees import (
    REPRESENTATIONS,
    Lexical,
    Preprocessing,
    Tree,
    check_tree,
    check_words,
    joined,
    letters,
    letters_of,
    represent,
    shown,
)

MAX_NODES = 1000  # K of a tree of n nodes is below n^2 2^n: up to here no kernel overflows
Representation = Lexical | Literal["bare", "words"]


@settings
class TreeKernel(Metric):
    """Base of all tree kernels.

    Args:
        decay: weight of a fragment per expanded node, above 0; 1 counts all fragments alike.
        lowercase: whether words are compared in lower case.
        binarize: "right" cuts nodes of more than two children into right-branching pairs; null keeps them.
        relations: "coarse" compares the 18 classes of RST-DT, "raw" the names as given.
        trees: a file of trees (.dis, .rs3, JSON), found by their words; with it, every text needs its tree.
        parser: what parses texts without a tree: "english" (ships with discorank); "none" refuses them.
        weights: a file of `discorank train rst` that "english" uses in place of its own.
    """

    decay: Annotated[float, Field(gt=0, le=1)] = 0.4
    lowercase: bool = True
    binarize: Literal["right"] | None = "right"
    relations: Literal["coarse", "raw"] = "coarse"
    trees: str | None = None
    parser: Literal["english", "none"] = "english"
    weights: str | None = None
    name: ClassVar[str] = "tree kernel"
    info: ClassVar[Info] = Info(summary="any tree kernel")

    def __post_init__(self) -> None:
        for name in ("trees", "weights"):
            path = getattr(self, name)
            if path is not None:
                object.__setattr__(self, name, check_file(path))
        if self.weights is not None and self.parser != "english":
            problem = f"weights beside parser={self.parser!r}"
            raise InputError(problem, where=self.name, fix="Leave one of them out")

    @property
    @abstractmethod
    def representations(self) -> tuple[Representation, ...]:
        """The representations whose kernels are averaged."""

    def for_language(self, lang: str) -> Self:
        """Without the English parsers for other languages: then texts need their trees, or weights of their own."""
        language = lang.lower().partition("-")[0]
        if language in ("en", "eng") or self.weights:
            return self
        return replace(self, parser="none")

    def check_files(self) -> None:
        """As every metric."""
        for spec in (self.trees, self.weights):
            if spec is not None:
                check_file(spec)

    def load(self) -> TreeKernelScorer:
        """The scorer; the parser is loaded when the first text needs it."""
        return TreeKernelScorer(self)


KERNEL_PAPERS = ("guzman2014discourse", "joty2017discourse")


def _info(summary: str, papers: tuple[str, ...] = KERNEL_PAPERS) -> Info:
    return Info(
        summary=summary,
        reasons="the discourse trees that are compared",
        papers=papers,
        unit="document",
        bounds=(0, 1),
        symmetric=True,
        costly_pairs=True,
    )


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
            problem = f"words={self.words!r} beside ignore='tree'"
            raise InputError(problem, where=self.name, fix="Leave one of them out")

    @property
    def representations(self) -> tuple[Representation, ...]:
        """DR-LEX or a variant of it."""
        if self.ignore == "tree":
            return ("words",)
        lexical = Lexical(
            nuc=self.ignore not in ("nuclearity", "both"),
            rel=self.ignore not in ("relations", "both"),
            leaf_nuc=self.words in ("nuclearity", "both"),
            leaf_rel=self.words in ("relation", "both"),
        )
        return (lexical,)


@settings
class DiscoTKLight(TreeKernel):
    """The mean of five kernels: DR, DR-LEX, DR-LEX1.1, DR-LEX2, DR-LEX2.1."""

    name: ClassVar[str] = "discotk-light"
    info: ClassVar[Info] = _info(
        "mean of the five discourse tree kernels", ("joty2014discotk", "joty2017discourse")
    )

    @property
    def representations(self) -> tuple[Representation, ...]:
        """All five."""
        names = ("DR", "DR-LEX", "DR-LEX1.1", "DR-LEX2", "DR-LEX2.1")
        return tuple(REPRESENTATIONS[name] for name in names)


class TreeKernelScorer(Scorer):
    """Represents a text by the distinct subtrees of its representations and its own kernel."""

    def __init__(self, metric: TreeKernel) -> None:
        self.info, self.metric = metric.info, metric
        self.preprocessing = Preprocessing(
            lowercase=metric.lowercase,
            binary=metric.binarize is not None,
            coarse=metric.relations == "coarse",
        )
        self.source = TreeSource(metric)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """The subtrees of every representation, and their number.

        Raises:
            InputError: a text has no tree, or its tree is broken or has other words.
        """
        trees = [self.source.tree(item.text) for item in items]
        lines = [shown(tree).encode("utf-8", "surrogatepass") for tree in trees]
        line_bytes = [np.frombuffer(line, np.uint8) for line in lines]
        prepared: dict[str, Ragged | IntArray] = {"shown": Ragged.of_rows(line_bytes)}
        lengths = np.zeros(len(items), np.int64)
        for i, representation in enumerate(self.metric.representations):
            labelled = [represent(tree, representation, self.preprocessing) for tree in trees]
            subtrees, sizes = columns(labelled)
            prepared |= {f"{i}.{name}": column for name, column in subtrees.items()}
            prepared[f"{i}.size"] = sizes
            lengths += sizes
        return Reps(prepared), lengths

    def represent(self, prepared: Reps) -> Reps:
        """Adds half the logarithm of every tree's own kernel, and its square root where a float64 holds it."""
        added = dict(prepared.columns)
        for i in range(len(self.metric.representations)):
            subtrees = _subtrees(prepared, i)
            large = prepared[f"{i}.size"] > MAX_NODES  # [trees]
            root = np.ones(len(prepared))
            half = np.zeros(len(prepared))
            # small trees in plain numbers, large ones in logarithms
            rows = np.flatnonzero(~large)
            values = self._own_kernels(subtrees, rows, log=False)
            # a tree without an expanded node has no fragment: 0 with any other
            values[values == 0] = 1
            half[rows] = np.log(values) / 2
            root[rows] = np.sqrt(values)
            rows = np.flatnonzero(large)
            half[rows] = self._own_kernels(subtrees, rows, log=True) / 2
            added |= {f"{i}.root": root, f"{i}.half": half}
        return Reps(added)

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The mean of the normalised kernels, [H, R] of every block."""
        num_representations = len(self.metric.representations)
        parts = [self._normalised(reps, i, blocks) for i in range(num_representations)]
        means = []
        for first, *rest in zip(*parts, strict=True):  # the kernels of one block
            means.append(sum(rest, first) / len(parts))
        return means

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The discourse trees of a pair."""
        return {
            "hypothesis tree": _shown(reps, block.hypotheses[[hypothesis]]),
            "reference tree": _shown(reps, block.references[[reference]]),
        }

    def _own_kernels(self, subtrees: dict[str, Ragged], rows: IntArray, log: bool) -> FloatArray:
        """K(a, a) of the trees `rows` [n], or its logarithm, [n]."""
        alone = [Block(row, row) for row in rows[:, None]]
        matrices = kernels(subtrees, alone, self.metric.decay, log)
        return np.array([matrix[0, 0] for matrix in matrices])

    def _normalised(self, reps: Reps, i: int, blocks: Sequence[Block]) -> list[FloatArray]:
        """The normalised kernels of representation i, [H, R] of every block."""
        subtrees = _subtrees(reps, i)
        decay = self.metric.decay
        root = reps[f"{i}.root"]
        half = reps[f"{i}.half"]
        is_large = reps[f"{i}.size"] > MAX_NODES  # [trees]
        matrices = []
        for block, k in zip(blocks, kernels(subtrees, blocks, decay), strict=True):
            norm = root[block.hypotheses][:, None] * root[block.references]
            matrices.append(np.minimum(k / norm, 1))
        # cells of which either tree is large, again in logarithms
        for n, block in enumerate(blocks):
            large = is_large[block.hypotheses][:, None] | is_large[block.references]  # [H, R]
            if large.any():
                log_k = kernels(subtrees, [block], decay, log=True)[0]
                log_norm = half[block.hypotheses][:, None] + half[block.references]
                values = np.minimum(np.exp(log_k - log_norm), 1)
                matrices[n] = np.where(large, values, matrices[n])
        return matrices


def _shown(reps: Reps, row: IntArray) -> str:
    return bytes(reps["shown"][row].values).decode("utf-8", "replace")


def _subtrees(reps: Reps, i: int) -> dict[str, Ragged]:
    """The columns of representation i, under the names of `COLUMNS`."""
    return {name: reps[f"{i}.{name}"] for name in COLUMNS}


class TreeSource:
    """The tree of any text: the text's own, that of a file of trees, or a parser's.

    Raises:
        InputError: as `read_trees`, or two trees of the file over the same words differ.
    """

    def __init__(self, metric: TreeKernel) -> None:
        self.metric = metric
        self.trees: dict[str, Tree] = {}  # of the file, by their letters
        if metric.trees is None:
            return
        path = path_of(metric.trees)
        for i, tree in enumerate(read_trees(path), 1):
            key = letters_of(tree)
            if self.trees.setdefault(key, tree) != tree:
                problem = f"a second tree over {excerpt(key)}"
                raise InputError(problem, where=f"{path}, tree {i}", fix="Give one tree per text")

    def tree(self, text: Text) -> Tree:
        """Its own tree, else that of the file, else the parser's; sentences are joined.

        Raises:
            InputError: there is none, or it is broken, or its words are not the text's.
            ModelLoadError: the parser is not there.
        """
        if isinstance(text, Document) and text.rst is not None:
            where = f"rst of {excerpt(str(text))}"
            tree = check_tree(text.rst, where)
            check_words(tree, str(text), where)
            return tree
        if not str(text).strip():
            return ()
        if self.metric.trees is not None:
            return self._in_file(text, path_of(self.metric.trees))
        parts = list(text.sentences) if isinstance(text, Document) else str(text)
        if self.metric.parser == "english":
            from .parser.parser import loaded

            weights = self.metric.weights
            return (loaded(*weights.split(MARK)) if weights else loaded()).document(parts)
        fix = 'Give Document(rst=...) or a file trees=..., or parser="english" for English'
        raise InputError(f"no tree for {excerpt(str(text))}", where="rst", fix=fix)

    def _in_file(self, text: Text, path: str) -> Tree:
        """The tree of the whole text, or those of its sentences joined."""
        whole = self.trees.get(letters(str(text)))
        if whole is not None:
            return whole
        sentences = text.sentences if isinstance(text, Document) else [str(text)]
        trees = [self.trees.get(letters(sentence)) for sentence in sentences]
        known = [tree for tree in trees if tree is not None]
        if len(known) < len(trees):
            problem = f"no tree for {excerpt(str(text))}"
            raise InputError(problem, where=path, fix="Add a tree of its words")
        return joined(known)
