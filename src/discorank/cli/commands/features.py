"""``discorank features SYSTEMS --human KEY``: discourse features of reference, good and bad texts.

    foci          how often foci come back, how connected sentences are (Zhao et al. 2023, section 4)
    relations     shares of relations and of nuclei in discourse trees (Joty et al. 2017, section 5.2)
    trees         elementary discourse units, and levels of relations above the deepest one
    roles         densities of discourse roles in positional bins (Liu et al. 2024, Figure 2), with --role-model

Good and bad are the texts of the systems with the best and the worst mean human score. A feature of a group is a ratio
of sums over its texts, f = sum a / sum b. p is that of a two-sided randomisation test of the difference between good
and bad texts, in which those of a document change places.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from ...integrations.formats.document_outputs import read_documents
from ...integrations.formats.human_scores import HumanKey
from ...integrations.formats.open_lists import open_documents
from ...integrations.formats.readers.systems import SystemsOptions
from ...metrics.discourse.coherence.cohesion import Cohesion
from ...metrics.discourse.coherence.foci import FocusReader, adjacency, conn, freq, grid_of
from ...metrics.discourse.roles.pdd import PDD, counts
from ...metrics.errors import InputError
from ...metrics.representations import FloatArray, Ragged
from ...metrics.rst.metric import DR, TreeSource
from ...metrics.rst.trees import Tree, coarse, walk
from ...metrics.spec.checked_settings import Field, setting_names, settings
from ...metrics.text.texts import Document, Item, RSTTree, Text
from ...rerank.selection.statistics import DRAWS, assignments, share_as_large
from ...rerank.selection.system_scores import DocumentOutputs
from ...tables import Format, Table, decimals, printed, words
from ..options import command, needed
from ..options.command_options import ReadingOptions
from ..terminal.console import Counted

REFERENCE, GOOD, BAD = GROUPS = ("reference", "good", "bad")
EPS = 1e-12
BINS = 5  # of roles

Groups = Mapping[str, Sequence[Text]]
Key = tuple[str, str]  # of a feature: its kind and its label


@settings
class FeaturesOptions:
    """The input and the texts whose features are computed.

    Args:
        input: a systems file, a document per line.
        human: the key of human scores, such as mqm:lower, by which systems are good and bad.
        top: how many systems are good, and how many bad.
        nouns: what finds the nouns that foci are, as in ds-focus.
        sentences: what splits plain texts: rule, pysbd:LANGUAGE, or your own module:function.
        role_model: a classifier of discourse roles; without one, there are no features of roles.
        format: output format.
    """

    input: str | None = None
    human: str | None = None
    top: Annotated[int, Field(ge=1)] = 2
    nouns: str = "hanta:en"
    sentences: str = "rule"
    role_model: str | None = None
    format: Format = "table"


class Ratio(NamedTuple):
    """Numerators of features of one kind by label, and their common denominator, in one text."""

    kind: str
    parts: Mapping[str, float]
    whole: float


@command(
    "Compare discourse features of good, bad and reference texts: how often foci come back and how connected sentences "
    "are, shares of discourse relations and nuclei, densities of discourse roles.",
    positional={"input": "?"},
    hidden=[field for field in setting_names(ReadingOptions) if field != "lang"],
    first=["input", "human", "top", "format"],
    examples=[
        "features examples:systems.jsonl --human mqm:lower",
        "features examples:systems.jsonl --human mqm:lower --top 3",
        "features examples:systems.jsonl --human mqm:lower --format markdown",
    ],
)
def features(options: FeaturesOptions, reading: ReadingOptions) -> None:
    """Prints the table."""
    path = needed(options.input, "input", "SYSTEMS")
    human = HumanKey.read(needed(options.human, "human"))
    documents = read_documents(open_documents(path, "systems"), SystemsOptions((human,), (), ()))
    try:
        groups = grouped(list(documents), human, options.top)
        rows = compared(groups, shares_of_texts(groups, options, reading.lang))
    except InputError as error:
        raise error.inside(path) from None
    columns = [words("kind", "kind"), words("feature", "feature")]
    columns += [decimals(group, group, 3) for group in GROUPS]
    columns += [decimals("good less bad", "difference", 3), decimals("p", "p")]
    title = "Discourse features of reference, good and bad texts"
    table = Table(title, columns, rows, "features", ("kind", "feature"))
    sys.stdout.write(printed([table], options.format))


def grouped(documents: Sequence[DocumentOutputs], human: HumanKey, top: int) -> list[Groups]:
    """The reference, good and bad texts of every document.

    Raises:
        InputError: there are too few systems to tell good from bad.
    """
    scores: dict[str, list[float]] = {}
    for document in documents:
        for name, given in document.human.get(human.name, {}).items():
            of_segments = [given] if isinstance(given, float | int) else given
            own = [score for score in of_segments if score is not None]
            if own and name in document.systems:
                scores.setdefault(name, []).append(sum(own) / len(own))
    if len(scores) < 2 * top:
        problem = f"{len(scores)} systems have human scores, {top} good and {top} bad are wanted"
        raise InputError(problem, where="--top", fix="Lower it, or give scores of more systems")
    means = {name: sum(own) / len(own) for name, own in scores.items()}
    order = sorted(means, key=lambda name: means[name] if human.lower else -means[name])
    return [_groups_of(document, order[:top], order[-top:]) for document in documents]


def _groups_of(document: DocumentOutputs, good: Sequence[str], bad: Sequence[str]) -> Groups:
    def texts(of: Mapping[str, tuple[str, ...]], names: Sequence[str]) -> list[Text]:
        segments = [of[name] for name in names if name in of]
        return [one[0] if document.whole else Document(one) for one in segments]

    return {
        REFERENCE: texts(document.references, list(document.references)),
        GOOD: texts(document.systems, good),
        BAD: texts(document.systems, bad),
    }


def shares_of_texts(
    groups: Sequence[Groups], options: FeaturesOptions, lang: str | None = None
) -> dict[Text, list[Ratio]]:
    """The features of every text."""
    texts = list(dict.fromkeys(text for own in groups for some in own.values() for text in some))
    foci = Cohesion(nouns=options.nouns, sentences=options.sentences)
    trees = DR()
    if lang:
        foci, trees = foci.for_language(lang), trees.for_language(lang)
    reader, source = FocusReader(foci), TreeSource(trees)
    shares: dict[Text, list[Ratio]] = {}
    with Counted("texts", len(texts)) as counted:
        for text in texts:
            shares[text] = [_of_foci(reader, text), *_of_tree(source.tree(text))]
            counted.more(1)
    if options.role_model:
        metric = PDD(bins=BINS, model=options.role_model, sentences=options.sentences)
        for text, of_text in zip(texts, _of_roles(texts, metric), strict=True):
            shares[text] += of_text
    return shares


def _of_foci(reader: FocusReader, text: Text) -> Ratio:
    foci = reader.read(text)
    grid = grid_of(foci.keys_by_sentence())
    unweighted, weighted = (
        conn(adjacency(grid, len(foci.sentences), is_weighted)) for is_weighted in (False, True)
    )
    parts = {"frequency": freq(grid), "connectivity-u": unweighted, "connectivity-w": weighted}
    return Ratio("foci", parts, 1)


def _of_tree(tree: Tree) -> list[Ratio]:
    """A node has one relation, and a nuclearity for each of its children."""
    relations: Counter[str] = Counter()
    letters: Counter[str] = Counter()
    for node in walk(tree):
        if isinstance(node, RSTTree):
            relations[coarse(node.rel)] += 1
            letters.update(node.nuc)
    edus = sum(not isinstance(node, RSTTree) for node in walk(tree))
    return [
        Ratio("relations", relations, relations.total()),
        Ratio("nuclearity", {"Nucleus": letters["N"]}, letters.total()),
        Ratio("trees", {"EDUs": edus, "depth": _depth(tree)}, 1),
    ]


def _depth(tree: Tree) -> int:
    """Levels of relations above the deepest EDU."""
    return 1 + max(map(_depth, tree.children)) if isinstance(tree, RSTTree) else 0


def _of_roles(texts: Sequence[Text], metric: PDD) -> list[list[Ratio]]:
    """The roles of sentences in every positional bin of each text."""
    scorer: Any = metric.scorer
    prepared, _ = scorer.prepare([Item(text) for text in texts])
    roles: Ragged = scorer.represent(prepared)["roles"]
    kinds = np.unique(roles.values)
    compact = Ragged(np.searchsorted(kinds, roles.values), roles.offsets)
    names = [scorer.schema.name(int(kind)) for kind in kinds]
    by_bin = counts(compact, metric.bins, len(kinds))  # [texts, bins, roles]
    return [
        [
            Ratio(f"roles, bin {number}", dict(zip(names, row, strict=True)), sum(row))
            for number, row in enumerate(of_text, 1)
        ]
        for of_text in by_bin.tolist()
    ]


def compared(groups: Sequence[Groups], shares: Mapping[Text, list[Ratio]]) -> list[dict[str, Any]]:
    """A row for every feature, by kind, the most frequent first."""
    totals: Counter[Key] = Counter()
    kinds = dict.fromkeys(share.kind for of_text in shares.values() for share in of_text)
    for of_text in shares.values():
        for kind, parts, _ in of_text:
            totals.update({(kind, label): part for label, part in parts.items()})
    order = list(kinds)
    keys = sorted(totals, key=lambda key: (order.index(key[0]), -totals[key]))
    sums = {
        group: np.array([_sums([shares[text] for text in own[group]], keys) for own in groups])
        for group in GROUPS
    }
    tests = ratio_test(sums[GOOD], sums[BAD])
    rows = []
    for column, ((kind, label), test) in enumerate(zip(keys, tests, strict=True)):
        row: dict[str, Any] = {"kind": kind, "feature": label}
        for group, of_documents in sums.items():
            part, whole = of_documents[:, :, column].sum(axis=0).tolist()
            row[group] = part / whole if whole else None
        rows.append(row | test._asdict())
    return rows


def _sums(texts: Sequence[Sequence[Ratio]], keys: Sequence[Key]) -> FloatArray:
    """Numerators and denominators over the texts of a document, [2, keys]."""
    parts: Counter[Key] = Counter()
    wholes: Counter[str] = Counter()
    for kind, own, whole in (share for of_text in texts for share in of_text):
        parts.update({(kind, label): part for label, part in own.items()})
        wholes[kind] += whole  # type: ignore[assignment]
    return np.array([[parts[key] for key in keys], [wholes[kind] for kind, _ in keys]], float)


class Test(NamedTuple):
    """A difference between two groups, and the chance that one as large is due to chance."""

    difference: float
    p: float


def ratio_test(first: FloatArray, second: FloatArray) -> list[Test]:
    """Tests of differences between ratios over documents: first minus second, one test per column.

    Args:
        first: numerators and denominators of one group, [documents, 2, columns].
        second: of the other.
    """

    def ratios(sums: FloatArray) -> FloatArray:
        return sums[..., 0, :] / np.maximum(sums[..., 1, :], EPS)

    a, b = first.sum(axis=0), second.sum(axis=0)
    observed = ratios(a) - ratios(b)  # [columns]
    moved = (second - first).reshape(len(first), -1)
    large = np.zeros(len(observed), np.int64)
    count, exact, masks = assignments(len(first), DRAWS, 0)
    for swapped in masks:
        change = (swapped @ moved).reshape(-1, *a.shape)
        drawn = ratios(a + change) - ratios(b - change)
        large += (np.abs(drawn) >= np.abs(observed) - EPS).sum(axis=0)
    return [
        Test(float(difference), share_as_large(int(number), count, exact))
        for difference, number in zip(observed, large, strict=True)
    ]
