"""What votes are worth on recorded answers of a model: one sample, votes, weighted votes, stopping, pass@16.

    python -m benchmarks.choice_quality.votes_of_models LISTS.jsonl...

    python -m benchmarks.choice_quality.votes_of_models benchmarks/results/questions-{smollm2,gemma3-270m}.jsonl.gz

LISTS are candidate lists with references, as ``discorank generate`` makes them of the questions of `questions` with
``--top-logprobs 20``; of lists without confidence the rows that need it are left out. Intervals of 95 % are by a
bootstrap of questions. "Tuned" temperatures of weights are those that do best on the other half of the questions, as
CISC has it (Taubenfeld et al. 2025). Of lists whose candidates name their systems, such as languages of thought, one
table has the vote beside the best system in hindsight; their intervals are by a bootstrap of problems, which the last
part of an id names. The right answer may be `target` instead of references. A comma separates the path of a file from
its name in the tables: ``lists.jsonl,smollm2``.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from discorank import CandidateList, MBRDecoder, StoppingRule, load_metric
from discorank.metrics.lexical.vote import Vote
from discorank.metrics.representations import FloatArray
from discorank.rerank.lists import read_list
from discorank.rerank.stopping_rule import outlook
from discorank.rerank.votes.confidence import SIGNS

from .stopping_votes import beta_rule, replayed

RESAMPLES = 2000
TEMPERATURES = {"mean-logprob": 0.2, "certainty": 1.0, "tail-entropy": 0.5, "bottom-window": 1.0}
GRID = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # temperatures among which is tuned
SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
BINS = (0.0, 0.05, 0.2, 0.4, 0.6, 1.01)
VOTE = Vote()
TARGET = "target"  # the key of a right answer
Chosen = Callable[[CandidateList], float]  # the chance that what is chosen from a list is right


def is_right(record: CandidateList, answer_of: Vote, text: Any) -> bool:
    """Whether the answer of a text is that of a reference."""
    return answer_of.is_right(text, record.references)


def reader_of(record: CandidateList) -> Vote:
    """The metric as it reads the list."""
    return VOTE.in_list([candidate.text for candidate in record.candidates])


def one_sample(record: CandidateList) -> float:
    """The mean over all samples."""
    reader = reader_of(record)
    return float(np.mean([is_right(record, reader, c.text) for c in record.candidates]))


def any_sample(record: CandidateList) -> float:
    """Whether one of all samples is right."""
    reader = reader_of(record)
    return float(any(is_right(record, reader, c.text) for c in record.candidates))


def by(decoder: MBRDecoder) -> Chosen:
    """What a decoder chooses."""

    def chosen(record: CandidateList) -> float:
        (ranking,) = decoder.decode([record])
        return float(is_right(record, reader_of(record), ranking.text))

    return chosen


def surest(name: str) -> Chosen:
    """The candidate of which the model was surest."""

    def chosen(record: CandidateList) -> float:
        values = [SIGNS[name] * float(c.fields[name]) for c in record.candidates]
        best = record.candidates[int(np.argmax(values))]
        return float(is_right(record, reader_of(record), best.text))

    return chosen


def stopped(record: CandidateList, rule: StoppingRule) -> tuple[int, bool, float]:
    """After how many draws votes stop, whether the answer is another than that of all, and whether it is right."""
    decoder = MBRDecoder("vote", keep_matrix=True)
    (whole,) = decoder.decode([record])
    drawn = 0
    ranking = whole
    while more := rule.next_round(drawn):
        drawn += more
        (ranking,) = decoder.decode([CandidateList(record.id, record.candidates[:drawn])])
        if rule.is_safe(rule.outlook_of(ranking)):
            break
    reader = reader_of(record)
    answers = reader.answers_of([ranking.text, whole.text]) or ()
    is_other = len({answer and answer.key for answer in answers}) > 1
    return drawn, is_other, float(is_right(record, reader, ranking.text))


def choosers(records: Sequence[CandidateList]) -> Iterator[tuple[str, Chosen]]:
    """What is compared."""
    yield "one sample", one_sample
    yield "vote of 4", lambda record: by(MBRDecoder("vote"))(first(record, 4))
    yield "vote of 16", by(MBRDecoder("vote"))
    yield "MBR, chrf", by(MBRDecoder("chrf"))
    for name in confidences(records):
        temperature = TEMPERATURES[name]
        decoder = MBRDecoder("vote", weights=name, temperature=temperature)
        yield f"vote by {name}, temperature {temperature:g}", by(decoder)
        yield f"the surest by {name}", surest(name)
    yield "pass@16", any_sample


PLAIN: Mapping[str, Chosen] = {
    "one sample": one_sample,
    "vote": by(MBRDecoder("vote")),
    "any sample": any_sample,
}


def confidences(records: Sequence[CandidateList]) -> list[str]:
    """The features of confidence that all candidates have."""
    return [name for name in SIGNS if all(name in c.fields for r in records for c in r.candidates)]


def right(records: Sequence[CandidateList], chosen: Chosen, number: int = 16) -> FloatArray:
    """Whether what is chosen from the first candidates is right, [records]."""
    return np.array([chosen(first(record, number)) for record in records])


def tuned(records: Sequence[CandidateList], name: str, number: int = 16) -> FloatArray:
    """As `right` of votes by a confidence, whose temperature is the best of the other half of the questions."""
    decoders = [MBRDecoder("vote", weights=name, temperature=t) for t in GRID]
    values: FloatArray = np.array([right(records, by(decoder), number) for decoder in decoders])
    # kinds of questions take turns
    half = np.arange(len(records)) // 3 % 2
    best = [values[:, half != own].mean(axis=1).argmax() for own in (0, 1)]
    tuned_values: FloatArray = np.where(half == 0, values[best[0]], values[best[1]])
    return tuned_values


def first(record: CandidateList, number: int) -> CandidateList:
    """The list with its first candidates."""
    candidates = record.candidates[:number]
    return CandidateList(record.id, candidates, references=record.references)


def interval(values: FloatArray) -> str:
    """A mean and its interval, by a bootstrap of questions."""
    random = np.random.default_rng(0)
    means = values[random.integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"


def accuracy(records: Mapping[str, Sequence[CandidateList]]) -> Iterator[str]:
    """The lines of the table of accuracy, a column per file."""
    counts = ", ".join(f"{name}: {len(lists)} questions" for name, lists in records.items())
    yield f"\naccuracy ({counts})\n"
    yield f"| | {' | '.join(records)} |"
    yield "|---|" + "---|" * len(records)
    values: dict[str, dict[str, FloatArray]] = {}
    for name, lists in records.items():
        for rule, chosen in choosers(lists):
            values.setdefault(rule, {})[name] = right(lists, chosen)
        for confidence in confidences(lists):
            rule = f"vote by {confidence}, tuned"
            values.setdefault(rule, {})[name] = tuned(lists, confidence)
    for rule, of_files in values.items():
        cells = [interval(of_files[name]) if name in of_files else "" for name in records]
        yield f"| {rule} | {' | '.join(cells)} |"
    votes = values["vote of 16"]
    for rule in [rule for rule in values if rule.startswith("vote by")]:
        gained = [
            interval(values[rule][name] - votes[name]) if name in values[rule] else ""
            for name in records
        ]
        yield f"| {rule}, less that of 16 | {' | '.join(gained)} |"


def of_kinds(records: Mapping[str, Sequence[CandidateList]]) -> Iterator[str]:
    """The lines of the table of kinds of questions."""
    yield "\naccuracy by kind of question\n"
    yield "| | kind | questions | one sample | vote of 16 | pass@16 |"
    yield "|---|---|---|---|---|---|"
    for name, lists in records.items():
        kinds = [record.id.split(":")[0] for record in lists]
        for kind in dict.fromkeys(kinds):
            own = [record for record, its in zip(lists, kinds, strict=True) if its == kind]
            rules = (one_sample, by(MBRDecoder("vote")), any_sample)
            cells = " | ".join(interval(right(own, rule)) for rule in rules)
            yield f"| {name} | {kind} | {len(own)} | {cells} |"


def fewer(records: Mapping[str, Sequence[CandidateList]]) -> Iterator[str]:
    """The lines of the table of fewer samples: plain votes, and votes by confidence at tuned temperatures."""
    yield "\naccuracy of the first samples, and less that of the plain vote of all 16\n"
    for name, lists in records.items():
        names = confidences(lists)
        yield f"\n| {name}: samples | vote | {' | '.join(f'by {each}' for each in names)} |"
        yield "|---|---|" + "---|" * len(names)
        all_votes = right(lists, by(MBRDecoder("vote")))
        for number in SIZES:
            plain = right(lists, by(MBRDecoder("vote")), number)
            weighed = [tuned(lists, each, number) for each in names]
            cells = [interval(values) for values in (plain, *weighed)]
            yield f"| {number} | {' | '.join(cells)} |"
            less = [interval(values - all_votes) for values in (plain, *weighed)]
            yield f"| {number}, less | {' | '.join(less)} |"


def stopping(records: Mapping[str, Sequence[CandidateList]]) -> Iterator[str]:
    """The lines of the table of stopping."""
    yield "\nstopping, cap 16\n"
    yield "| | rule | draws saved | other answers | accuracy |"
    yield "|---|---|---|---|---|"
    for name, lists in records.items():
        for bound in (None, 0.1, 0.3):
            results = [stopped(record, StoppingRule(bound=bound)) for record in lists]
            drawn, other, right = (np.array(column, float) for column in zip(*results, strict=True))
            shown = "default" if bound is None else f"bound {bound}"
            saved = f"{100 * (1 - drawn.mean() / 16):.1f} %"
            yield f"| {name} | {shown} | {saved} | {interval(other)} | {interval(right)} |"
        answers = [numbered(record) for record in lists]
        for least in (0.95, 0.9):
            draws = list(replayed(answers, beta_rule(least), first=4))
            drawn, other = (np.array(column, float) for column in zip(*draws, strict=True))
            saved = f"{100 * (1 - drawn.mean() / 16):.1f} %"
            yield f"| {name} | Beta {least:.2f} | {saved} | {interval(other)} | |"


def numbered(record: CandidateList) -> list[int]:
    """A number for the answer of every candidate; one for all that have none."""
    reader = reader_of(record)
    numbers: dict[str | None, int] = {}
    answers = reader.answers_of([candidate.text for candidate in record.candidates]) or ()
    return [numbers.setdefault(answer and answer.key, len(numbers)) for answer in answers]


def outlooks(record: CandidateList, metric: Any) -> Iterator[tuple[float, bool]]:
    """The probability that the rule says after 4 to 15 draws, and whether the choice was then another."""
    texts = [str(candidate.text) for candidate in record.candidates]
    distinct = list(dict.fromkeys(texts))
    u = metric.in_list(texts).pairwise(distinct, distinct)
    full = u @ np.array([texts.count(text) for text in distinct]) / len(texts)
    for drawn in range(4, len(texts)):
        counts = np.array([texts[:drawn].count(text) for text in distinct])
        seen = np.flatnonzero(counts)
        now = outlook(u[np.ix_(seen, seen)], counts[seen], len(texts))
        chosen = seen[int(np.argmax(u[np.ix_(seen, seen)] @ counts[seen]))]
        margin = 0.0 if now.is_of_answers else 0.01 * now.risk
        yield now.probability, bool(full.max() - full[chosen] > margin + 1e-9)


def law(records: Sequence[CandidateList], names: Sequence[str]) -> Iterator[str]:
    """How often the choice was another, by the probability that was said."""
    yield "\nprobability of another choice: said, and found (cases)\n"
    yield f"| said | {' | '.join(names)} |"
    yield "|---|" + "---|" * len(names)
    cases = {}
    for name in names:
        metric = load_metric(name)
        cases[name] = np.array([case for r in records for case in outlooks(r, metric)], float)
    for low, high in pairwise(BINS):
        cells = []
        for name in names:
            said, found = cases[name].T
            inside = (said >= low) & (said < high)
            means = f"{said[inside].mean():.3f}, {found[inside].mean():.3f} ({inside.sum()})"
            cells.append(means if inside.any() else "")
        yield f"| {low:g} to {min(high, 1):g} | {' | '.join(cells)} |"


def lists_in(path: str) -> list[CandidateList]:
    """The lists of a file, which may be gzipped."""
    content = Path(path).read_bytes()
    text = (gzip.decompress(content) if path.endswith(".gz") else content).decode()
    rows = map(json.loads, text.splitlines())
    return [
        read_list({"references": [str(row[TARGET])], **row} if TARGET in row else row)
        for row in rows
    ]


def interval_of_problems(records: Sequence[CandidateList], values: FloatArray) -> str:
    """A mean and its interval, by a bootstrap of problems; lists without a value are left out."""
    problems = np.unique([record.id.rsplit(".", 1)[-1] for record in records], return_inverse=True)[
        1
    ]
    has_value = np.isfinite(values)
    sums = np.bincount(problems, np.where(has_value, values, 0))
    counts = np.bincount(problems, has_value.astype(float))
    drawn = np.random.default_rng(0).integers(len(sums), size=(RESAMPLES, len(sums)))
    low, high = np.quantile(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1), (0.025, 0.975))
    return f"{sums.sum() / counts.sum():.3f} [{low:.3f}, {high:.3f}]"


def of_systems(name: str, lists: Sequence[CandidateList]) -> Iterator[str]:
    """The lines of the table of lists whose candidates come from several systems."""
    of_systems: dict[str, FloatArray] = {}
    for i, record in enumerate(lists):
        reader = reader_of(record)
        for candidate in record.candidates:
            values = of_systems.setdefault(
                str(candidate.fields["system"]), np.full(len(lists), np.nan)
            )
            values[i] = is_right(record, reader, candidate.text)
    rules = {rule: np.array([chosen(record) for record in lists]) for rule, chosen in PLAIN.items()}
    best, of_best = max(of_systems.items(), key=lambda item: float(np.nanmean(item[1])))
    rules[f"best system in hindsight ({best}, {np.isfinite(of_best).sum()} lists)"] = of_best
    rules["vote, less one sample"] = rules["vote"] - rules["one sample"]
    rules[f"vote, less {best}"] = rules["vote"] - of_best
    stopped_at = [stopped(record, StoppingRule(cap=len(record.candidates))) for record in lists]
    drawn, other, right_when_stopped = np.array(stopped_at, float).T
    rules["vote, stopped"] = right_when_stopped
    rules["vote, stopped: samples saved"] = 1 - drawn / [len(r.candidates) for r in lists]
    rules["vote, stopped: answers changed"] = other
    yield f"\n| {name}: {len(lists)} lists | |"
    yield "|---|---|"
    for rule, values in rules.items():
        yield f"| {rule} | {interval_of_problems(lists, values)} |"


if __name__ == "__main__":
    files = [[*argument.split(","), Path(argument).stem][:2] for argument in sys.argv[1:]]
    found = {name: lists_in(path) for path, name in files}
    for name, lists in list(found.items()):
        if all("system" in c.fields for record in lists for c in record.candidates):
            for line in of_systems(name, found.pop(name)):
                print(line, flush=True)
    for table in (accuracy, of_kinds, fewer, stopping) if found else ():
        for line in table(found):
            print(line, flush=True)
    everything = [record for lists in found.values() for record in lists]
    for line in law(everything, ("vote", "chrf")) if everything else ():
        print(line, flush=True)
