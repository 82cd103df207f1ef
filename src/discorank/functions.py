"""The functions of discorank in Python: `read`, `decode`, `rerank`, `explain`, `score`, `metrics`.

`compare` is in `report.compared_texts`, `generate` in `integrations.huggingface`. Each does what the command of its
name does, of values in memory or of a file. Lists are texts, `CandidateList` objects, their JSON form, columns and
arrays, data frames, datasets, or files; of one list comes one answer, of several a list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from inspect import Parameter, Signature, signature
from itertools import chain, islice
from os import PathLike, fspath
from typing import Any, Literal, TypedDict, TypeVar, Unpack, get_type_hints, overload

from . import __version__
from .integrations.arrow.columns import ColumnNames, as_lists
from .integrations.formats.open_lists import open_lists
from .metrics.errors import InputError, excerpt
from .metrics.mixture import Utility
from .metrics.names import WRAPPERS
from .metrics.quoted_signature import quoted
from .metrics.registry import MetricLike, load_metric, metric_class, names
from .metrics.representations import FloatArray
from .metrics.scorer import Info
from .metrics.storage.bundled_files import bundled
from .metrics.text.texts import (
    Document,
    is_column,
    is_data_frame,
    library_of,
    plain_value,
    rows_of_frame,
)
from .report.explanation import explanation, explanation_text, legend
from .rerank.budget.settings import Budget
from .rerank.choice import Ranking
from .rerank.decider import Decider
from .rerank.engines.expectation import Normalize
from .rerank.engines.interface import Engine
from .rerank.lists import (
    Candidate,
    CandidateList,
    candidates_of,
    list_of,
    list_rows,
    refuse_plain_documents,
)
from .rerank.mbr import MBRDecoder
from .rerank.order import Strategy
from .rerank.prior import Prior
from .rerank.reranker import EXPECTED, Reranker, weighted_features
from .tables import aligned

Path = str | PathLike[str]
OneList = CandidateList | Mapping[str, Any] | Sequence[Candidate | Document]
Features = str | Sequence[str] | Mapping[Any, float]
Settings = Mapping[str, Any]

_BY_KEY = ("source", "logprobs", "pseudo_references", "references")
F = TypeVar("F", bound=Callable[..., Any])


class ListKeys(TypedDict, total=False):
    """What belongs to a list that is given as its texts alone; of several lists, a sequence with a value of each.

    Args:
        source: the input.
        logprobs: natural log-probabilities of the candidates.
        pseudo_references: texts that stand in for references, in place of the candidates.
        references: human references.
        columns: of data frames, files and datasets: which column is which key, such as ``["candidates=samples"]``.
        engine: what computes utilities.
    """

    source: Any
    logprobs: Any
    pseudo_references: Any
    references: Any
    columns: Sequence[str]
    engine: Engine | None


class ChoiceSettings(ListKeys, total=False):
    """What every decider has, as settings of `MBRDecoder` and `Reranker`."""

    nbest: int | None
    diverse: float | None
    choose: Literal["segment", "document"]
    strategy: Strategy | Literal["auto"]


class DecodeSettings(ChoiceSettings, total=False):
    """Keywords of `decode`: those of a list, and settings of `MBRDecoder`."""

    weights: str
    temperature: float
    self_pair: bool
    prior: Prior | str | None
    prior_strength: float
    oracle: bool
    normalize_parts: Normalize
    shortlist: MetricLike | None
    top_k: int
    budget: Budget | float | None
    keep_matrix: bool


class RerankSettings(ChoiceSettings, total=False):
    """Keywords of `rerank`: those of a list, settings of `Reranker`, and what the feature "expected" is of."""

    utility: MetricLike | None
    weights: str
    self_pair: bool
    normalize: Normalize
    shrink: float
    system_field: str
    system_means: Mapping[str, float] | str | None


_OF_LISTS = frozenset(ListKeys.__annotations__)


class _Default:
    """Stands for what the settings have where a keyword is left out."""

    def __repr__(self) -> str:
        return "..."


_DEFAULT = _Default()


def _written(kind: Any) -> str:
    """A type as it is written in a TypedDict."""
    return str(getattr(kind, "__forward_arg__", kind))


def _with_keywords(function: F) -> F:
    """Has `inspect`, `help` and notebooks see the keywords that a TypedDict names, as type checkers do."""
    named = get_type_hints(function)["settings"].__args__[0]
    given = [p for p in signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    keywords = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=_DEFAULT, annotation=_written(kind))
        for name, kind in named.__annotations__.items()
        if name not in {p.name for p in given}
    ]
    function.__signature__ = Signature([*given, *keywords])  # type: ignore[attr-defined]
    return function


def read(path: Path, format: str = "jsonl", **options: Unpack[ReadOptions]) -> list[CandidateList]:
    """The candidate lists of a file, all of them.

    Args:
        path: a file of any format, or ``examples:NAME``.
        format: the name of the format, as ``--from`` of the commands.
        options: of the format: columns, sources, documents, num_candidates, human, ...

    Raises:
        InputError: the file, or the first list that cannot be read.
    """
    options = {name: bundled(v) if isinstance(v, str) else v for name, v in options.items()}  # type: ignore[assignment]
    with open_lists(bundled(fspath(path)), format, **options) as lists:
        return list(lists.records())


class ReadOptions(TypedDict, total=False):
    """Options of formats, as of the command line."""

    num_candidates: int | None
    sources: Path | None
    documents: Path | None
    requests: Path | None
    human: Sequence[str]
    as_systems: Sequence[str]
    include: Sequence[str]
    columns: Sequence[str]
    language_pair: str | None


@overload
def decode(  # type: ignore[overload-overlap]
    candidates: Path, utility: MetricLike, **settings: Unpack[DecodeSettings]
) -> list[Ranking]: ...


@overload
def decode(  # type: ignore[overload-overlap]
    candidates: Sequence[str], utility: MetricLike, **settings: Unpack[DecodeSettings]
) -> Ranking[str]: ...


@overload
def decode(  # type: ignore[overload-overlap]
    candidates: OneList, utility: MetricLike, **settings: Unpack[DecodeSettings]
) -> Ranking: ...


@overload
def decode(
    candidates: Iterable[Sequence[str]], utility: MetricLike, **settings: Unpack[DecodeSettings]
) -> list[Ranking[str]]: ...


@overload
def decode(
    candidates: Iterable[OneList], utility: MetricLike, **settings: Unpack[DecodeSettings]
) -> list[Ranking]: ...


@overload
def decode(candidates: Any, utility: MetricLike, **settings: Unpack[DecodeSettings]) -> Any: ...


@_with_keywords
def decode(candidates: Any, utility: MetricLike, **settings: Unpack[DecodeSettings]) -> Any:
    """The decision for one list, with all its places, or for each of several.

    Args:
        candidates: texts, `Candidate` objects or their JSON form; a whole list as `CandidateList` or mapping; several
            lists, a data frame, a dataset, one of its columns, or a file.
        utility: as for `MBRDecoder`: a metric, its name, a sum, or a function u(h, r).
        settings: of `MBRDecoder` by name, and of lists given as texts: source, logprobs, pseudo_references,
            references.

    Raises:
        InputError: settings or candidates that cannot be used.
    """
    of_lists, own = _split(settings)
    decider = MBRDecoder(**{"utility": utility, "nbest": None, **own})
    return _decided(candidates, decider, of_lists)


@overload
def rerank(  # type: ignore[overload-overlap]
    candidates: Path, features: Features, **settings: Unpack[RerankSettings]
) -> list[Ranking]: ...


@overload
def rerank(  # type: ignore[overload-overlap]
    candidates: Sequence[str], features: Features, **settings: Unpack[RerankSettings]
) -> Ranking[str]: ...


@overload
def rerank(  # type: ignore[overload-overlap]
    candidates: OneList, features: Features, **settings: Unpack[RerankSettings]
) -> Ranking: ...


@overload
def rerank(
    candidates: Iterable[Sequence[str]], features: Features, **settings: Unpack[RerankSettings]
) -> list[Ranking[str]]: ...


@overload
def rerank(
    candidates: Iterable[OneList], features: Features, **settings: Unpack[RerankSettings]
) -> list[Ranking]: ...


@overload
def rerank(candidates: Any, features: Features, **settings: Unpack[RerankSettings]) -> Any: ...


@_with_keywords
def rerank(candidates: Any, features: Features, **settings: Unpack[RerankSettings]) -> Any:
    """The decision for one list by a weighted sum of features, or for each of several.

    Args:
        candidates: as for `decode`.
        features: a sum such as ``"logprob/length + 0.5*comet-qe"``, several, or a mapping of weights.
        settings: of `Reranker` by name, of lists given as texts, and utility, weights and self_pair of the feature
            "expected".

    Raises:
        InputError: settings or candidates that cannot be used.
    """
    of_lists, own = _split(settings)
    of_expected = {name: own.pop(name) for name in ("weights", "self_pair") if name in own}
    utility = own.pop("utility", None)
    pairs = weighted_features(features)
    if EXPECTED in [feature for feature, _ in pairs]:
        if utility is None:
            fix = 'Give utility="chrf", or another metric with references'
            raise InputError("the feature expected has no utility", where="utility", fix=fix)
        own["decoder"] = MBRDecoder(utility, **of_expected)
    elif utility is not None or of_expected:
        name = "utility" if utility is not None else next(iter(of_expected))
        raise InputError("is for the feature expected", where=name, fix='Add "expected"')
    return _decided(candidates, Reranker(**{"features": pairs, "nbest": None, **own}), of_lists)


def _split(settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keywords of lists, and the others."""
    of_lists = {name: value for name, value in settings.items() if name in _OF_LISTS}
    return of_lists, {name: v for name, v in settings.items() if name not in _OF_LISTS}


def _decided(candidates: Any, decider: Decider, of_lists: Settings) -> Any:
    """The ranking of one list, or those of several."""
    records, is_one = lists_in(candidates, of_lists)
    rankings = decider.decode(records, of_lists.get("engine"))
    return next(rankings) if is_one else list(rankings)


def lists_in(candidates: Any, of_lists: Settings) -> tuple[Iterable[Any], bool]:
    """The lists that an argument stands for, and whether it is a single one.

    Args:
        candidates: as for `decode`.
        of_lists: the values of `ListKeys`.

    Raises:
        InputError: it is none of the forms, or keys do not go with it.
    """
    columns = tuple(of_lists.get("columns") or ())
    keys = {name: of_lists[name] for name in _BY_KEY if of_lists.get(name) is not None}
    if isinstance(candidates, str | PathLike):
        _refuse_keys(keys, "a file has in it")
        return read(candidates, columns=columns), False
    if is_data_frame(candidates):
        _refuse_keys(keys, "a data frame has in its columns")
        return _framed(candidates, columns), False
    if library_of(candidates) == "datasets" and not is_column(candidates):
        _refuse_keys(keys, "a dataset has in its columns")
        rows = list_rows(candidates)
        return (_renamed(rows, columns) if columns else rows), False
    given = plain_value(candidates)
    if isinstance(given, CandidateList | Mapping):
        _refuse_keys(keys, "a list has in it")
        return [given], True
    given = given if isinstance(given, list | tuple) else _listed(given)
    if _is_one(given):
        one = _one(given, keys)
        alone = one if isinstance(one, Mapping) else {"candidates": candidates_of(one)}
        return [{"id": "list", **alone}], True
    if not keys:
        return given, False
    return [_one(one, _of_list(keys, i, len(given))) for i, one in enumerate(given)], False


def _listed(given: Any) -> Sequence[Any]:
    """What an iterable has; raises InputError for what is none."""
    if isinstance(given, Document | Candidate) or not isinstance(given, Iterable):
        fix = "Give a list of texts, several of them, or a file"
        raise InputError(f"found {excerpt(given)}", where="candidates", fix=fix)
    return list(given)


def _is_one(given: Sequence[Any]) -> bool:
    """Whether a sequence holds candidates, and not lists of them."""
    first = next(iter(given), None)
    if isinstance(first, Mapping):
        return "text" in first
    return first is None or isinstance(first, str | Document | Candidate)


def _one(given: Any, keys: Settings) -> Any:
    """A list of texts with what belongs to it."""
    if not keys:
        return given
    if isinstance(given, CandidateList | Mapping):
        _refuse_keys(keys, "a list has in it")
    values = {name: plain_value(value) for name, value in keys.items()}
    for name in ("source", "pseudo_references", "references"):
        if name in values:
            refuse_plain_documents([values[name]] if name == "source" else values[name], name)
    candidates = list(given)
    logprobs = values.pop("logprobs", None)
    if logprobs is not None:
        if not isinstance(logprobs, list | tuple) or len(logprobs) != len(candidates):
            problem = f"found {excerpt(logprobs)}, expected a number of each candidate"
            raise InputError(problem, where="logprobs")
        rows = zip(candidates, logprobs, strict=True)
        candidates = [{**_as_object(text), "logprob": value} for text, value in rows]
    return {"candidates": candidates, **values}


def _as_object(candidate: Any) -> dict[str, Any]:
    """A candidate in its JSON form."""
    if isinstance(candidate, Candidate):
        return {"text": candidate.text, **candidate.fields}
    return dict(candidate) if isinstance(candidate, Mapping) else {"text": candidate}


def _of_list(keys: Settings, number: int, num_lists: int) -> dict[str, Any]:
    """What belongs to one of several lists."""
    own = {}
    for name, values in keys.items():
        values = plain_value(values)
        if not isinstance(values, list | tuple) or len(values) != num_lists:
            problem = f"found {excerpt(values)}, expected a value of each of {num_lists} lists"
            raise InputError(problem, where=name)
        own[name] = values[number]
    return own


def _refuse_keys(keys: Settings, why: str) -> None:
    """Raises InputError for what stands beside lists that have it in themselves."""
    if keys:
        name = next(iter(keys))
        raise InputError(f"stands beside what {why}", where=name, fix="Leave it out")


def _framed(frame: Any, columns: Sequence[str]) -> Iterable[Any]:
    """The lists in a data frame: a row each, or a row for each candidate."""
    rows = rows_of_frame(frame)
    names_of = [str(name) for name in frame.columns]
    fitted = ColumnNames.read(columns).fitted(names_of, "data frame", "list")
    keyed = [(i, fitted.keyed(row, i)) for i, row in enumerate(rows, 1)]
    numbered = as_lists(keyed, "data frame") if fitted.is_flat else keyed
    return [_list_of_row(row, number) for number, row in numbered]


def _list_of_row(row: Any, number: int) -> CandidateList:
    """The list in a row of a data frame, or in several from one on; errors name the row."""
    try:
        return list_of(row, number - 1)
    except InputError as error:
        raise error.inside(f"data frame:{number}") from None


def _renamed(rows: Iterable[Any], columns: Sequence[str]) -> Iterable[Any]:
    """The rows of a dataset under the keys that columns are."""
    source = iter(rows)
    first = list(islice(source, 1))
    fitted = ColumnNames.read(columns).fitted(list(first[0]) if first else [], "dataset", "list")
    for number, row in enumerate(chain(first, source), 1):
        yield fitted.keyed({name: row.get(name) for name in fitted.read}, number)


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why a list was decided so; it prints as ``discorank explain`` says it.

    Args:
        ranking: the decision.
        data: the reasons as values of JSON.
        utility: the signature of what decided.
        meaning: what the numbers mean.
    """

    ranking: Ranking
    data: Mapping[str, Any]
    utility: str
    meaning: str

    def __repr__(self) -> str:
        return explanation_text(self.data, self.utility) + self.meaning

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        return f"<pre>{escape(repr(self))}</pre>"


@overload
def explain(  # type: ignore[overload-overlap]
    candidates: Path, utility: MetricLike, **settings: Unpack[DecodeSettings]
) -> list[Explanation]: ...


@overload
def explain(  # type: ignore[overload-overlap]
    candidates: Sequence[str] | OneList, utility: MetricLike, **settings: Unpack[DecodeSettings]
) -> Explanation: ...


@overload
def explain(
    candidates: Iterable[Sequence[str] | OneList],
    utility: MetricLike,
    **settings: Unpack[DecodeSettings],
) -> list[Explanation]: ...


@overload
def explain(candidates: Any, utility: MetricLike, **settings: Unpack[DecodeSettings]) -> Any: ...


@_with_keywords
def explain(candidates: Any, utility: MetricLike, **settings: Unpack[DecodeSettings]) -> Any:
    """Why a list, or each of several, is decided so: its ranking, what agrees with each place, what metrics say.

    Args:
        candidates: as for `decode`.
        utility: as for `decode`.
        settings: as for `decode`; ``nbest``, 3 if not given, is how many places are explained.

    Raises:
        InputError: as `decode`.
    """
    of_lists, own = _split(settings)
    decoder = MBRDecoder(**{"utility": utility, "nbest": 3, **own, "keep_matrix": True})
    records, is_one = lists_in(candidates, of_lists)
    lists = [list_of(record, number) for number, record in enumerate(records)]
    explanations = explained(decoder, lists, of_lists.get("engine"))
    return next(explanations) if is_one else list(explanations)


def explained(
    decider: MBRDecoder | Reranker,
    lists: Sequence[CandidateList],
    engine: Engine | None = None,
    reasons: int | None = None,
) -> Iterator[Explanation]:
    """Why lists are decided so, one after the other.

    Args:
        decider: what decides; an MBRDecoder that keeps matrices.
        lists: of ids of their own.
        engine: what computes utilities.
        reasons: for how many places of a list the metrics say why; for all if not given.
    """
    by_id = {record.id: record for record in lists}
    parts, is_scaled = deciding_metrics(decider)
    meaning = legend(parts, is_scaled)
    utility = " + ".join(metric.signature() for metric in _deciding(decider))
    for ranking in decider.decode(lists, engine):
        data = explanation(ranking, by_id[ranking.id], parts, reasons, ranking.context)
        yield Explanation(ranking, data, utility or "the sum of features", meaning)


def deciding_metrics(decider: MBRDecoder | Reranker) -> tuple[list[Any], bool]:
    """The metrics of a decider that say why a text is good, and whether their values are scaled within lists."""
    parts = [part for utility in _deciding(decider) for _, part in utility.parts]
    is_scaled = isinstance(decider, MBRDecoder) and decider.estimator.normalize_parts != "none"
    return parts, is_scaled


def _deciding(decider: MBRDecoder | Reranker) -> Sequence[Utility]:
    """The features of a reranker, but the utility alone of a decoder with a shortlist."""
    return decider.metrics if isinstance(decider, Reranker) else decider.metrics[-1:]


@dataclass(frozen=True, repr=False)
class MetricScores:
    """What a metric gives texts; it prints as its signature and its corpus score.

    Args:
        signature: of the metric.
        corpus: the metric's own score of all texts together.
        segments: of every text, [n].
        num_references: of each text; None where they have none, or not equally many.
    """

    signature: str
    corpus: float
    segments: FloatArray
    num_references: int | None = None

    def __repr__(self) -> str:
        return f"{self.quoted} = {self.corpus:.4g} ({len(self.segments)} segments)"

    @property
    def quoted(self) -> str:
        """The signature as papers quote it."""
        return quoted(self.signature, __version__, self.num_references)


@overload
def score(
    hypotheses: Any,
    references: Any = None,
    metrics: MetricLike = "chrf",
    *,
    sources: Any = None,
    documents: Any = None,
) -> MetricScores: ...


@overload
def score(
    hypotheses: Any,
    references: Any = None,
    *,
    metrics: Sequence[MetricLike],
    sources: Any = None,
    documents: Any = None,
) -> list[MetricScores]: ...


def score(
    hypotheses: Any,
    references: Any = None,
    metrics: MetricLike | Sequence[MetricLike] = "chrf",
    *,
    sources: Any = None,
    documents: Any = None,
) -> MetricScores | list[MetricScores]:
    """Scores of texts against references, by one metric or several.

    Args:
        hypotheses: texts, as a sequence, an array or a column.
        references: one of each, or a list of several; None for metrics that read none.
        metrics: a metric, its name or signature, or several.
        sources: the source texts, for metrics that read them.
        documents: the document of each text, for metrics that read context.

    Raises:
        InputError: what the metrics need is missing, or of another length.
    """
    columns = [plain_value(column) for column in (hypotheses, references, sources, documents)]
    if isinstance(metrics, list | tuple):
        return [_scores(load_metric(spec), columns) for spec in metrics]
    single: Any = metrics
    return _scores(load_metric(single), columns)


def _scores(metric: Utility, columns: Sequence[Any]) -> MetricScores:
    references = columns[1]
    counts = {1 if isinstance(one, str | Document) else len(one) for one in references or ()}
    number = counts.pop() if len(counts) == 1 else None
    corpus, segments = metric.corpus(*columns), metric.score(*columns)
    return MetricScores(metric.signature(), corpus, segments, number)


class KnownMetrics(dict[str, Info]):
    """What is known of every metric, by its name; it prints as ``discorank metrics``."""

    def __repr__(self) -> str:
        rows = [["name", "unit", "range", "better", "needs", "what it is"]]
        for name, info in self.items():
            low, high = info.bounds
            better = "higher" if info.higher_is_better else "lower"
            needs = ["reference"] * info.needs_references + ["source"] * info.needs_source
            needs += ["source (if given)"] * info.takes_source
            bounds = f"{low:g}..{high:g}"
            rows.append([name, info.unit, bounds, better, "+".join(needs) or "-", info.summary])
        wrappers = ", ".join(f"{name}(METRIC)" for name in WRAPPERS)
        return f"{aligned(rows)}\n\nAround a metric of segments, for whole documents: {wrappers}"


def metrics() -> KnownMetrics:
    """What is known of every metric: its unit, bounds, direction, needs, and what it is."""
    return KnownMetrics({name: metric_class(name).info for name in sorted(names())})
