"""Pages on, differences between, and reasons for the choices of runs.

``discorank report RUN [-o report.html]``: one page to look at, on compared systems or on a decoder's choices.

``discorank diff A B``: the choices in which two runs differ, words marked, with their contexts.

``discorank explain INPUT -u UTILITY``: the choice from each list, and the reasons for it; ``discorank explain RUN``
explains the choices of a run of decode or rerank, by its own settings and input.

The first lists of a run are decided again, by the decider and from the input in its run file, which may be somebody
else's. Code that it names is imported only from modules that the user allows. The input that it names is opened only in
the working directory and beside the run, or if the user names it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from ...functions import deciding_metrics, explained
from ...integrations.formats.open_lists import Lists
from ...integrations.scoring.list_prompts import read_chosen_texts
from ...metrics.errors import MAX_NAMES, InputError, MetricError, unknown
from ...metrics.mixture import Utility
from ...metrics.registry import load_from_data
from ...metrics.spec.checked_settings import Field, setting_names, settings
from ...metrics.spec.user_code import AllowedCode, CodeRefusedError
from ...metrics.storage.bundled_files import bundled
from ...report.choices import ChosenRun, read_run
from ...report.choices import explained as shown_list
from ...report.differences import difference_data, difference_lines, differences
from ...report.explanation import FEATURES, ON_A_PAGE, explanation_text, meanings
from ...report.page import plot_package, rendered, template_package
from ...rerank.budget.settings import Budget
from ...rerank.capabilities import SINGLE_LISTS
from ...rerank.engines.local import LocalEngine
from ...rerank.lists import CandidateList
from ...rerank.mbr import MBRDecoder
from ...rerank.prior import Prior, load_prior
from ...rerank.reranker import EXPECTED, Reranker, is_plain
from ...rerank.runs.resumable import as_line
from ...rerank.selection.saved_comparison import FILES, load
from ...rerank.shrinkage import Shrinkage
from ..options import command, needed
from ..options.decoders import BudgetOptions, DecoderOptions, MetricOptions
from ..options.inputs import READ_BESIDE, InputOptions, file_key
from ..running import check_not_input, check_writable, output_file
from ..terminal.console import Counted, say

REASONS = 3  # places of a list for which the metrics say why


@settings
class ReportOptions:
    """What is reported.

    Args:
        run: what compare --save wrote, what decode or rerank wrote (with its .run.json), or one of each.
        output: the page; - for stdout.
        limit: how many lists of a decoder's run are shown with reasons, which metrics are loaded for.
        prior: the prior of a decoder's run, if it had one.
    """

    run: tuple[str, ...] = ()
    output: str = "report.html"
    limit: Annotated[int, Field(ge=0)] = 100
    prior: str | None = None


@command(
    "Write one self-contained HTML page on compared systems (compare --save) or on what a decoder chose and why.",
    positional={"run": "*"},
    short={"output": "o"},
    hidden=[
        "input_format",
        "num_candidates",
        "human",
        "as_systems",
        "include",
        "columns",
        "mqm_weights",
        "max_calls",
        "max_tokens",
    ],
    first=["run", "output", "input", "limit"],
    examples=["report chosen.jsonl -o chosen.html", "report compared -o compared.html"],
)
def report(options: ReportOptions, input: InputOptions, metrics: MetricOptions) -> None:
    """Writes the page."""
    paths = needed(options.run, "run", "RUN")
    # what is missing is said before any work
    template_package()
    plot_package()
    compared = [path for path in paths if Path(path).is_dir()]
    decided = [path for path in paths if path not in compared]
    output = options.output
    if max(len(compared), len(decided)) > 1:
        problem = f"{len(compared)} comparisons and {len(decided)} runs of decode or rerank"
        raise InputError(problem, where="RUN", fix="Give one, or one of each")
    if output != "-":
        check_not_input(output, [*_files_read(compared, decided), input.input])
        check_writable(output, "Name a file, or - for stdout")
    comparison = load(compared[0]) if compared else None
    chosen = read_run(decided[0]) if decided else None
    if chosen is not None and options.limit:
        chosen = with_reasons(chosen, options, input, metrics)
    page = rendered(comparison, chosen).encode("utf-8", "replace")
    with output_file(output, rows=False) as file:
        file.write(page)
    if output != "-":
        say(f"{output}: {len(page) / 1e6:.1f} MB")


def _files_read(compared: Sequence[str], decided: Sequence[str]) -> list[str]:
    """All files that the page may be made from, but for the input."""
    of_runs = [f"{path}{end}" for path in decided for end in ("", ".run.json", ".errors.jsonl")]
    return of_runs + [f"{folder}/{name}" for folder in compared for name in FILES]


@settings
class DiffOptions:
    """What is compared.

    Args:
        runs: what two runs of decode or rerank wrote, as JSON lines.
        limit: how many differences are shown.
        format: text, or json: a line per difference.
    """

    runs: tuple[str, ...] = ()
    limit: Annotated[int, Field(ge=1)] | None = 20
    format: Literal["text", "json"] = "text"


@command(
    "Show the choices in which two runs of the same lists differ, words marked, with the sentences before.",
    positional={"runs": "*"},
    short={"num_candidates": "n"},
    first=["runs", "limit", "input", "format"],
    examples=[
        "diff first.jsonl second.jsonl",
        "diff first.jsonl second.jsonl --limit all",
        "diff first.jsonl second.jsonl --input examples:context.jsonl --format json",
    ],
)
def diff(options: DiffOptions, input: InputOptions) -> None:
    """Compares two runs, with the lists where these are to be had."""
    if len(options.runs) != 2:
        problem = f"{len(options.runs)} files, expected two"
        raise InputError(problem, where="RUNS", fix="discorank diff A.jsonl B.jsonl")
    first, second = options.runs
    chosen = read_chosen_texts(first), read_chosen_texts(second)
    if not chosen[0].keys() & chosen[1].keys():
        problem = f"has no list that {first} has"
        raise InputError(problem, where=second, fix="Give two runs of the same input")
    records: list[CandidateList] = []
    try:
        input = input if input.input else input_of(read_run(first), input)
    except InputError as error:  # without its run file, or its input
        say(f"sources and contexts are not shown: {error}")
    else:
        with input.opened() as lists:
            records = [entry.record for entry in lists if entry.record is not None]
    differing = differences(chosen, records)
    if options.format == "json":
        lines = (as_line(difference_data(one)).decode() for one in differing)
        sys.stdout.writelines(lines)
    else:
        shown = difference_lines((first, second), chosen, differing, options.limit)
        sys.stdout.writelines(f"{line}\n" for line in shown)


def with_reasons(
    run: ChosenRun, options: ReportOptions, input: InputOptions, metrics: MetricOptions
) -> ChosenRun:
    """The run with its first lists decided again, with every place and the reasons; or why they cannot be.

    Raises:
        InputError: the input is not where it was, or no longer the same.
    """
    try:
        decider = decider_of(run, metrics, options.prior)
        with input_of(run, input).opened() as lists:
            records = list(_same(run, lists, options.limit))
        by_id = {record.id: record for record in records}
        shown: list[dict[str, Any]] = []
        with Counted("lists", max(1, len(records))) as counted:
            for why in explained(decider, records, LocalEngine(metrics.cache()), REASONS):
                shown.append(shown_list(run, by_id[why.ranking.id], why.data))
                counted.more(1)
    except (CodeRefusedError, MissingPriorError, MetricError) as error:
        say(f"{run.path}: no list is shown with reasons: {error}")
        return replace(run, unexplained=f"{error.where or 'the run'} {error.problem}")
    numbers = FEATURES if isinstance(decider, Reranker) else ON_A_PAGE
    parts, is_scaled = deciding_metrics(decider)
    return replace(run, lists=tuple(shown), meanings=meanings(parts, is_scaled, numbers))


def _same(run: ChosenRun, lists: Lists, limit: int) -> Iterator[CandidateList]:
    """The first records of the input that the run decided.

    Raises:
        InputError: the input has changed since.
    """
    digest = blake2b(digest_size=16)
    num_entries, num_lists = 0, 0
    for entry in islice(lists, run.head.input.entries):
        digest.update(entry.raw + b"\n")
        num_entries += 1
        record = entry.record
        if record is None or num_lists >= limit:
            continue
        # a list that only gives context does not count as one
        if record.id in run.rows or record.context_only:
            num_lists += not record.context_only
            yield record
    read = (num_entries, digest.hexdigest())
    if read != (run.head.input.entries, run.head.input.digest):
        raise InputError(
            f"is not the input that {run.path} was made from",
            where=lists.name,
            fix="Give that one with --input, and the options with which the run read it",
        )


class MissingPriorError(InputError):
    """A run was decided with a prior, which the user has not given."""


def decider_of(run: ChosenRun, options: MetricOptions, prior: str | None) -> MBRDecoder | Reranker:
    """The decider of a run, set to give every rank.

    Raises:
        CodeRefusedError: it needs code that the options do not allow; nothing was imported.
        MissingPriorError: its prior is not given.
        InputError: the run file's settings are not those of a decoder, or another prior is given.
    """
    saved = run.settings
    if saved.get("choice") == "document":
        problem = "chose whole documents, which a report of lists has no place for"
        fix = "Compare the choices instead: discorank compare SYSTEMS --decoded RUN"
        raise InputError(problem, where=run.path, fix=fix)
    allowed = AllowedCode.of(options.code.allow_code, plug_ins=False)
    loaded = [load_from_data(signature, allowed) for signature in run.signatures]
    metrics = iter([options.beside(run.path).adapted(metric) for metric in loaded])
    try:
        if saved["decoder"] == "rerank":
            return _reranker(run, metrics, prior)
        decoder_settings: dict[str, Any] = {name: saved[name] for name in ("strategy", "oracle")}
        if saved["shortlist"]:
            decoder_settings["shortlist"] = next(metrics)
            decoder_settings["top_k"] = _kept(saved["shortlist"])
        if "budget" in saved:
            decoder_settings["budget"] = _budget(saved["budget"], metrics)
        if "diverse" in saved:
            decoder_settings |= {"diverse": saved["diverse"], "nbest": saved["nbest"]}
        expectation = _expectation(run, saved, prior)
        settings = {"nbest": None, **decoder_settings, **expectation, "keep_matrix": True}
        return MBRDecoder(next(metrics), **settings)
    except (KeyError, TypeError, StopIteration, AttributeError) as error:
        raise unreadable(run, error) from None


def _budget(saved: Mapping[str, Any], metrics: Iterator[Utility]) -> Budget:
    """The budget of a run; the run has shown that it may be, so it is forced."""
    plain = {name: saved[name] for name in ("share", "confidence", "regret")}
    return Budget(cheap_utility=next(metrics), force=True, **plain)


def _reranker(run: ChosenRun, metrics: Iterator[Utility], prior: str | None) -> Reranker:
    """The reranker of a run; metrics stand in its settings by the digests of their models, in order."""
    saved = run.settings
    features: dict[Any, float] = {}
    for name, weight in saved["features"].items():
        features[name if is_plain(name) else next(metrics)] = weight
    decoder = None
    if EXPECTED in features:
        decoder = MBRDecoder(next(metrics), **_expectation(run, saved[EXPECTED], prior))
    shrinkage = {name: saved[name] for name in setting_names(Shrinkage) if name in saved}
    return Reranker(
        features,
        **shrinkage,
        normalize=saved["normalize"],
        nbest=None,
        strategy=saved["strategy"],
        decoder=decoder,
    )


def _expectation(run: ChosenRun, saved: Mapping[str, Any], prior: str | None) -> dict[str, Any]:
    """The settings that expected utilities depend on, as the run file has them."""
    expectation = {name: saved[name] for name in ("weights", "temperature", "self_pair")}
    if "normalize_parts" in saved:
        expectation["normalize_parts"] = saved["normalize_parts"]
    if "prior" in saved:
        expectation["prior"] = _prior(run, saved["prior"], prior)
        expectation["prior_strength"] = saved["prior_strength"]
    return expectation


def _prior(run: ChosenRun, digest: str, path: str | None) -> Prior:
    """The prior of a run, which its run file names by its digest alone; raises InputError if it is not given."""
    fix = "Give the one that the run had: --prior FILE"
    if path is None and "prior" in run.head.files:
        path = _near_file(run, run.head.files["prior"], "--prior")
        path = path if os.path.isfile(path) else None
    prior = load_prior(path)
    if prior is None:
        raise MissingPriorError("was decided with a prior", fix=fix)
    if prior.digest != digest:
        problem = f"digest {prior.digest}, expected {digest}"
        raise InputError(problem, where=str(path), fix=fix)
    return prior


def _kept(shortlist: str) -> int:
    """How many texts a shortlist kept, from ``SIGNATURE, top K``."""
    number = shortlist.rpartition("top ")[2]
    if not number.isdecimal():
        raise TypeError(f"shortlist {shortlist!r:.40}")
    return int(number[:9])


def unreadable(run: ChosenRun, error: Exception) -> InputError:
    """The error for a run file that is not as decode and rerank write it."""
    where = f"{run.path}.run.json"
    return InputError(
        f"cannot be read ({error!r:.80})", where=where, fix="Run decode or rerank again"
    )


def input_of(run: ChosenRun, given: InputOptions) -> InputOptions:
    """The input of a run, read as the run read it; files that are given stand for those that it names.

    Raises:
        InputError: the input is not there, or stands where only the user can have it opened.
    """
    saved = run.settings
    names = ("human", "as_systems", "include", "columns", "mqm_weights")
    reading: dict[str, Any] = {
        "input_format": saved.get("input_format", "jsonl"),
        "num_candidates": saved.get("num_candidates"),
        "language_pair": given.language_pair or saved.get("language_pair"),
    }
    try:
        reading |= {name: tuple(saved.get(name, ())) for name in names}
        InputOptions(**reading)
    except (TypeError, InputError) as error:
        raise unreadable(run, error) from None
    for name in READ_BESIDE:
        reading[name] = getattr(given, name) or _file_beside(run, name)
    path = given.input or _near_file(run, run.head.name, "--input")
    if not os.path.exists(path):
        fix = "Give the file that the run read, where it is now: --input FILE"
        raise InputError("is not there", where=path, fix=fix)
    return InputOptions(**reading, input=path)


def _file_beside(run: ChosenRun, name: str) -> str | None:
    """The file that an option of the run named beside the input, unchanged since; None if it had no such option.

    Raises:
        InputError: it is not there, has changed, or is neither near the run nor in the working directory.
    """
    if name not in run.head.files:
        return None
    path = _near_file(run, run.head.files[name], f"--{name}")
    digests = run.settings.get("files")
    recorded = digests.get(name) if isinstance(digests, Mapping) else None
    fix = f"Give the file that the run read: --{name} FILE"
    digest = file_key(path, fix)
    if recorded not in (None, digest):
        raise InputError("has changed since the run", where=f"--{name} {path}", fix=fix)
    return path


def _near_file(run: ChosenRun, name: str, flag: str) -> str:
    """A file that a run file names, or that of the same name beside the run.

    Raises:
        InputError: it is not a plain file in the working directory or in the run's folder.
    """
    if bundled(name) != name:
        return bundled(name)
    folder = Path(os.path.abspath(run.path)).parent
    beside = folder / os.path.basename(name)
    if not os.path.exists(name) and os.path.isfile(beside):
        return str(beside)
    path = Path(os.path.abspath(name))
    is_near = path.is_relative_to(Path.cwd()) or path.is_relative_to(folder)
    if not is_near or (os.path.exists(path) and not os.path.isfile(path)):
        problem = "the run file names a file that is not a plain one near it"
        raise InputError(problem, where=name, fix=f"If that is the file of the run: {flag} FILE")
    return name


@settings
class ExplainOptions:
    """What to explain.

    Args:
        id: ids of the lists to explain; the first ones if not given.
        limit: how many lists to explain.
        format: text or json.
    """

    id: tuple[str, ...] = ()
    limit: Annotated[int, Field(ge=1)] | None = 10
    format: Literal["text", "json"] = "text"


@command(
    "Show the ranking of candidate lists, the gap to the runner-up, the pseudo-references that agree most, and why. "
    "Of a run of decode or rerank, explain its choices.",
    positional={"input": "?"},
    short={"utility": "u", "num_candidates": "n"},
    hidden=["max_calls", "max_tokens"],
    needs=(SINGLE_LISTS,),
    defaults={"nbest": 3},
    first=["input", "utility", "id", "limit", "nbest", "format"],
    examples=[
        "explain examples:demo.jsonl -u chrf --id ferry:1",
        "explain examples:demo.jsonl -u 'chrf + 0.5*bleu' --limit 1 --nbest 1",
        "explain examples:summaries.jsonl -u rouge-l --limit 1",
    ],
)
def explain(
    input: InputOptions,
    budget: BudgetOptions,
    options: DecoderOptions,
    what: ExplainOptions,
    metrics: MetricOptions,
) -> None:
    """Explains."""
    decoder: MBRDecoder | Reranker
    if options.utility is None and input.input and os.path.isfile(f"{input.input}.run.json"):
        run = read_run(input.input)
        decoder = decider_of(run, metrics, options.file.prior)
        input = input_of(run, replace(input, input=None))
    else:
        choice = replace(options.choice, keep_matrix=True)
        decoder = replace(options, choice=choice).loaded(metrics, budget)
    ids = frozenset(what.id)
    # with lists of context, lists before the explained ones are decided too
    ids_to_read = frozenset[str]() if decoder.width else ids
    with input.opened() as lists:
        seen: list[str] = []
        records = list(islice(_records(lists, ids_to_read, seen), what.limit))
    if missing := sorted(ids - {record.id for record in records}):
        if not ids_to_read and len(records) == what.limit:
            fix = f"Only {len(seen)} lists were read: raise --limit"
            raise InputError(f"no list with id {missing[0]!r}", where=lists.name, fix=fix)
        raise unknown("id", missing[0], seen, where=lists.name)
    nbest = options.choice.nbest
    meaning = ""
    for why in explained(decoder, records, LocalEngine(metrics.cache()), nbest):
        if ids and why.ranking.id not in ids:
            continue
        meaning, ranks = why.meaning, why.data["ranking"]
        data = {**why.data, "ranking": ranks[:nbest]}
        if what.format == "json":
            sys.stdout.write(as_line(data).decode())
        else:
            sys.stdout.write(explanation_text(data, why.utility))
    if what.format == "text":
        sys.stdout.write(meaning)


def _records(lists: Lists, ids: frozenset[str], seen: list[str]) -> Iterator[CandidateList]:
    """The lists of these ids, all if there are none; raises the first error record.

    `seen` gets the first ids of all lists.
    """
    for record in lists.records():
        if len(seen) < MAX_NAMES:
            seen.append(record.id)
        if not ids or record.id in ids:
            yield record
