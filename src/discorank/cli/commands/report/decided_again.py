"""A run of ``decode`` or ``rerank`` made ready to be decided again: its decider and its input, from its run file.

A run file may be somebody else's. Code that it names is imported only from modules that the user allows; the input that
it names is opened only where such a file is expected, in the working directory and beside the run, or if the user names
it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....metrics.errors import InputError
from ....metrics.mixture import Utility
from ....metrics.registry import load_from_data
from ....metrics.spec.user_code import AllowedCode
from ....report.choices import ChosenRun
from ....rerank.budget.settings import Budget
from ....rerank.mbr import MBRDecoder
from ....rerank.prior import Prior, load_prior
from ....rerank.reranker import EXPECTED, Reranker, is_plain
from ...options import build
from ...options.inputs import InputOptions, adapted


class MissingPriorError(InputError):
    """A run was decided with a prior, which the user has not given."""


def decider_of(run: ChosenRun, values: Mapping[str, Any]) -> MBRDecoder | Reranker:
    """The decider of a run, set to give every rank.

    Raises:
        CodeRefusedError: it needs code that the options do not allow; nothing was imported.
        MissingPriorError: its prior is not given.
        InputError: the run file's settings are not those of a decoder, or another prior is given.
    """
    saved = run.settings
    if saved.get("choice") == "document":
        problem = "chose whole documents, which a report of lists has no place for"
        fix = "Judge the choices instead: discorank compare --choosers ... --choice document"
        raise InputError(problem, where=run.path, fix=fix)
    allowed = AllowedCode.of(values["allow_code"], plug_ins=False)
    loaded = [load_from_data(signature, allowed) for signature in run.signatures]
    reading = {**values, "decided_run": run.path}
    metrics = iter([adapted(metric, reading) for metric in loaded])
    try:
        if saved["decoder"] == "rerank":
            return _reranker(run, metrics, values)
        decoder_settings: dict[str, Any] = {name: saved[name] for name in ("strategy", "oracle")}
        if saved["shortlist"]:
            decoder_settings["shortlist"] = next(metrics)
            decoder_settings["top_k"] = _kept(saved["shortlist"])
        if "budget" in saved:
            decoder_settings["budget"] = _budget(saved["budget"], metrics)
        if "diverse" in saved:
            decoder_settings |= {"diverse": saved["diverse"], "nbest": saved["nbest"]}
        expectation = _expectation(run, saved, values)
        settings = {"nbest": None, **decoder_settings, **expectation, "keep_matrix": True}
        return MBRDecoder(next(metrics), **settings)
    except (KeyError, TypeError, StopIteration, AttributeError) as error:
        raise unreadable(run, error) from None


def _budget(saved: Mapping[str, Any], metrics: Iterator[Utility]) -> Budget:
    """The budget of a run; the run has shown that it may be, so it is forced."""
    plain = {name: saved[name] for name in ("method", "confidence", "regret", "seed")}
    cheap = None if saved["cheap_utility"] is None else next(metrics)
    return Budget(saved["share"], cheap_utility=cheap, force=True, **plain)


def _reranker(run: ChosenRun, metrics: Iterator[Utility], values: Mapping[str, Any]) -> Reranker:
    """The reranker of a run; metrics stand in its settings by the digests of their models, in order."""
    saved = run.settings
    features: dict[Any, float] = {}
    for name, weight in saved["features"].items():
        features[name if is_plain(name) else next(metrics)] = weight
    decoder = None
    if EXPECTED in features:
        decoder = MBRDecoder(next(metrics), **_expectation(run, saved[EXPECTED], values))
    budget = None
    if "budget" in saved:
        budget = _budget(saved["budget"], metrics)
    return Reranker(
        features,
        normalize=saved["normalize"],
        nbest=None,
        strategy=saved["strategy"],
        decoder=decoder,
        budget=budget,
    )


def _expectation(
    run: ChosenRun, saved: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings that expected utilities depend on, as the run file has them."""
    expectation = {name: saved[name] for name in ("weights", "temperature", "self_pair")}
    if "normalize_parts" in saved:
        expectation["normalize_parts"] = saved["normalize_parts"]
    if "prior" in saved:
        expectation["prior"] = _prior(run, saved["prior"], values["prior"])
        expectation["prior_strength"] = saved["prior_strength"]
    return expectation


def _prior(run: ChosenRun, digest: str, path: str | None) -> Prior:
    """The prior of a run, which its run file names by its digest alone; raises InputError if it is not given."""
    fix = "Give the one that the run had: --prior FILE"
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


def input_values(run: ChosenRun, values: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the command with those by which the run read its input.

    Raises:
        InputError: the input is not there, or stands where only the user can have it opened.
    """
    saved = run.settings
    reading = {
        "input_format": saved.get("input_format", "jsonl"),
        "num_candidates": saved.get("num_candidates"),
    }
    try:
        for name in ("human", "as_systems", "include", "columns"):
            reading[name] = tuple(saved.get(name, ()))
        build(InputOptions, reading)
    except (TypeError, InputError) as error:
        raise unreadable(run, error) from None
    path = values["input"] or _input_of(run)
    if not os.path.exists(path):
        fix = "Give the file that the run read, where it is now: --input FILE"
        raise InputError("is not there", where=path, fix=fix)
    return {**values, **reading, "input": path}


def _input_of(run: ChosenRun) -> str:
    """The input of a run: the file that its run file names, or that of the same name beside the run.

    Raises:
        InputError: it was stdin; or no plain file in the working directory or in the run's folder.
    """
    name = run.head.name
    if name in ("-", "stdin"):
        raise InputError(
            "the run read its lists from stdin",
            where=run.path,
            fix="Give them in a file: --input FILE",
        )
    folder = Path(os.path.abspath(run.path)).parent
    beside = folder / os.path.basename(name)
    if not os.path.exists(name) and os.path.isfile(beside):
        return str(beside)
    path = Path(os.path.abspath(name))
    is_near = path.is_relative_to(Path.cwd()) or path.is_relative_to(folder)
    if not is_near or (os.path.exists(path) and not os.path.isfile(path)):
        problem = (
            "the run file names an input that is no plain file near it or in the working directory"
        )
        raise InputError(
            problem, where=name, fix="If that is where the run's lists are: --input FILE"
        )
    return name
