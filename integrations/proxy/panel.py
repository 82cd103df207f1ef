"""Several models behind one address: what each is asked for, what it cost, how often it was chosen and by how much.

Every model is asked for candidates of the same request, and all of these are decided together; each carries its
model's name as ``system``, by which priors (`prior`) and shrinkage (`shrinkage`) go. Waiting ends when a quorum of
models has given its candidates, when the others have failed, or at the deadline, with what has come.

A model's own mean is that of its standardised scores, which grows request by request; where scores are shrunk it is
what they are moved towards. The record of a panel is bounded by its models, and may be kept in a file of system means.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from math import isclose, nan
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...metrics.errors import InputError, excerpt, unknown
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.storage.atomic_files import complete_file, locked
from ...metrics.storage.checksums import with_checksum
from ...metrics.storage.limits import limits
from ...rerank.choice import Ranking
from ...rerank.decider import Decider
from ...rerank.engines.part_sums import normalized
from ...rerank.lists import Candidate, CandidateList, finite
from ...rerank.mbr import MBRDecoder
from ...rerank.reranker import Reranker
from ...rerank.shrinkage import (
    FORMAT,
    KIND,
    VALUES,
    RunningMean,
    SecondPass,
    SystemMean,
    SystemMeans,
    mean_in,
    means_file,
    means_of_list,
)
from ..files.reply_choices import value_at
from ..server.settings import Connection

SYSTEM = "system"  # the field of a candidate that names its model
MAX_COUNT = 1 << 53  # more is no count; up to here, floats are exact
SAVE_SECONDS = 30.0  # between two times that a record which changes is written
Outcome = Literal["answered", "failed", "dropped"]
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(.*)", re.DOTALL)
_KEYS = ("model", "n", "key")
_FIX = "Write NAME=URL, and behind it what there is of ,model=NAME,n=NUMBER,key=VARIABLE"


@settings
class PanelSettings:
    """Several models upstream.

    Args:
        quorum: how many of several models have to have given their candidates; then the others are not waited for. All
            that did not fail, if not given; --deadline ends the waiting too.
        panel_file: keeps how often each model was chosen, by how much, its own mean and its cost, from one start of
            the server to the next.
        panel_report: print what --panel-file holds, and end.
    """

    heading: ClassVar = "server"

    quorum: Annotated[int, Field(ge=1)] | None = None
    panel_file: str | None = None
    panel_report: bool = False


class UpstreamSpec(NamedTuple):
    """A server upstream as it is given: ``URL`` alone, or ``NAME=URL,model=...,n=...,key=...``.

    Args:
        name: of the model among others; empty where there is one without a name.
        url: its address.
        model: what the server calls it; empty for what a request says.
        n: candidates of it; None for as many as of any.
        key_variable: the environment variable that holds the key of the server.
    """

    name: str
    url: str
    model: str = ""
    n: int | None = None
    key_variable: str | None = None


class PanelModel(NamedTuple):
    """A server upstream, and how it is reached."""

    spec: UpstreamSpec
    connection: Connection


def read_upstreams(texts: Sequence[str]) -> tuple[UpstreamSpec, ...]:
    """Servers upstream from what is written of them.

    >>> read_upstreams(["small=http://a/v1,model=s,n=4"])
    (UpstreamSpec(name='small', url='http://a/v1', model='s', n=4, key_variable=None),)

    Raises:
        InputError: one of several has no name, a name comes twice, or what follows it cannot be read.
    """
    limits().check("systems", len(texts), "--upstream")
    specs = tuple(map(_read_upstream, texts))
    names = [spec.name for spec in specs]
    if len(specs) > 1 and "" in names:
        url = specs[names.index("")].url
        raise InputError(f"found {excerpt(url)} without a name", where="--upstream", fix=_FIX)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"{twice} comes twice", where="--upstream", fix="Give each model a name of its own"
        )
    return specs


def _read_upstream(text: str) -> UpstreamSpec:
    """A server upstream."""
    match = _NAMED.fullmatch(text)
    if match is None:
        if re.search(f",({'|'.join(_KEYS)})=", text):
            raise InputError(f"found {excerpt(text)} without a name", where="--upstream", fix=_FIX)
        return UpstreamSpec("", text)
    name, (url, *parts) = match[1], match[2].split(",")
    where = f"--upstream {name}"
    given: dict[str, str] = {}
    for part in parts:
        key, mark, value = part.partition("=")
        if key not in _KEYS:
            raise unknown("key", key, _KEYS, where=where)
        if not mark or not value or key in given:
            raise InputError(f"found {excerpt(part)}", where=where, fix=_FIX)
        given[key] = value
    n = given.get("n")
    if n is not None and not re.fullmatch("[1-9][0-9]{0,5}", n):
        raise InputError(f"found n={n:.20}, expected a whole number from 1", where=where, fix=_FIX)
    size = None if n is None else int(n)
    limits().check("candidates", size or 0, where)
    return UpstreamSpec(name, url, given.get("model", ""), size, given.get("key"))


class ModelCost(NamedTuple):
    """What a model was asked for by one request, and what came of it.

    Args:
        system: the name of the model.
        outcome: whether it gave something, gave nothing, or was not waited for any more.
        candidates: that it gave.
        requests: that were sent to it.
        prompt_tokens, completion_tokens: as its server counts them, in the replies that came.
        seconds: until its last reply, or until it was not waited for any more.
        problem: why it gave nothing; empty if it gave something.
    """

    system: str
    outcome: Outcome
    candidates: int
    requests: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        """As the answer tells it."""
        known = {name: value for name, value in self._asdict().items() if value != ""}
        return {**known, "seconds": round(self.seconds, 4)}


def header_of(costs: Iterable[ModelCost]) -> str:
    """What each model cost, in one line.

    >>> header_of([ModelCost("a", "answered", 4, 1, 9, 40, 0.25)])
    'a; answered; n=4; requests=1; prompt-tokens=9; completion-tokens=40; seconds=0.250'
    """
    return ", ".join(
        f"{cost.system}; {cost.outcome}; n={cost.candidates}; requests={cost.requests}; "
        f"prompt-tokens={cost.prompt_tokens}; completion-tokens={cost.completion_tokens}; seconds={cost.seconds:.3f}"
        for cost in costs
    )


def tokens_of(reply: Any) -> tuple[int, int]:
    """Tokens of the prompt and of the texts of a reply, as the server counts them; 0 where it does not say."""
    usage = value_at(reply, "usage")
    counts = [value_at(usage, f"{kind}_tokens") for kind in ("prompt", "completion")]
    prompt, completion = (
        count if isinstance(count, int) and 0 < count < MAX_COUNT else 0 for count in counts
    )
    return prompt, completion


@dataclass
class ModelTotals:
    """What is known of a model since the record began.

    Args:
        asked: requests that it was asked for.
        answered, failed, dropped: how many of them it gave something to, gave nothing to, or was not waited for.
        candidates, prompt_tokens, completion_tokens, seconds: summed over these.
        chosen: how often the answer was its candidate.
        best: how often one of its candidates was as good as the answer.
        gap: of the requests where it was chosen, how much worse the second-best text was.
        own: its standardised scores, each the mean of a request.
    """

    asked: int = 0
    answered: int = 0
    failed: int = 0
    dropped: int = 0
    candidates: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    chosen: int = 0
    best: int = 0
    seconds: float = 0.0
    gap: RunningMean = field(default_factory=RunningMean)
    own: RunningMean = field(default_factory=RunningMean)

    def take(self, cost: ModelCost) -> None:
        """Adds the cost of a request."""
        self.asked += 1
        setattr(self, cost.outcome, getattr(self, cost.outcome) + 1)
        self.candidates += cost.candidates
        self.prompt_tokens += cost.prompt_tokens
        self.completion_tokens += cost.completion_tokens
        self.seconds += cost.seconds

    def as_json(self) -> dict[str, Any]:
        """A row of the file, which is one of system means too."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        return {
            **_row(self.own.mean),
            **counts,
            "seconds": self.seconds,
            "gap": _row(self.gap.mean),
        }

    @classmethod
    def read(cls, row: Mapping[str, Any], where: str) -> ModelTotals:
        """The totals of a row; raises InputError for one that holds something else."""
        counts = {name: row.get(name) for name in _COUNTS}
        for name, count in counts.items():
            if type(count) is not int or not 0 <= count < MAX_COUNT:
                problem = f"found {excerpt(count)}, expected a count"
                raise InputError(problem, where=f"{where}.{name}", fix=MEND)
        seconds = finite(row.get("seconds"))
        if seconds is None:
            problem = f"found {excerpt(row.get('seconds'))}, expected a number"
            raise InputError(problem, where=f"{where}.seconds", fix=MEND)
        gap = RunningMean(mean_in(row.get("gap"), f"{where}.gap"))
        own = RunningMean(mean_in(row, where))
        return cls(**counts, seconds=seconds, gap=gap, own=own)  # type: ignore[arg-type]


_COUNTS = tuple(one.name for one in fields(ModelTotals) if one.type == "int")
MEND = "Restore the file, or name another (--panel-file)"


def _row(mean: SystemMean) -> dict[str, Any]:
    return {"mean": mean.mean, "low": mean.low, "high": mean.high, "lists": mean.lists}


def scored_by(decider: Decider) -> dict[str, Any]:
    """What the scores are that a record's means are of."""
    identity = decider.identity
    return {name: identity[name] for name in ("features", "utility") if name in identity}


class PanelRecord:
    """How each model of a panel did.

    Args:
        names: of the models.
        decider: what chooses where a request names nothing else; its scores alone count for own means.
        path: of its file; None if it is kept nowhere.
    """

    def __init__(self, names: Sequence[str], decider: Decider, path: Path | None = None) -> None:
        self._names, self._decider, self.path = tuple(names), decider, path
        self.scored_by = scored_by(decider)
        self.totals = {name: ModelTotals() for name in names}
        self._is_changed = True  # than any file

    @property
    def means(self) -> SystemMeans:
        """The own means of the models; 0, as of all together, for one that nothing is known of."""
        return SystemMeans.in_order({name: self.totals[name].own.mean for name in self._names})

    def note_costs(self, costs: Sequence[ModelCost]) -> None:
        """Takes what a request cost."""
        for cost in costs:
            self.totals[cost.system].take(cost)
            self._is_changed = True

    def shrunk(self, decider: Decider, record: CandidateList, ranking: Ranking) -> Ranking:
        """A ranking, with the scores of its candidates moved towards the means of their models where that is asked for.

        Args:
            decider: that made it.
            record: the list.
            ranking: of a first pass, which has the standardised scores; they grow the means first.
        """
        if not isinstance(decider, Reranker) or VALUES not in ranking.extra:
            return ranking
        row = ranking.extra[VALUES]
        self._grow((name, nan if value is None else value) for name, value in row)
        second = SecondPass(decider, decider.shrinkage, self.means)
        return replace(second.ranking(record, row, ranking.flags), context=ranking.context)

    def note_choice(self, decider: Decider, ranking: Ranking, system: str) -> None:
        """Takes a decision.

        Args:
            decider: that made it.
            ranking: of the candidates, each with its system.
            system: of the one that answers.
        """
        self._is_changed = True
        chosen = self.totals[system]
        chosen.chosen += 1
        if ranking.gap is not None:
            chosen.gap.add(ranking.gap)
        systems = [str(candidate.fields[SYSTEM]) for candidate in ranking.candidates]
        utilities, best = ranking.utilities, ranking.utility
        pairs = zip(systems, utilities, strict=True)
        for name in {system, *(name for name, value in pairs if _is_as_good(value, best))}:
            self.totals[name].best += 1
        is_shrunk = isinstance(decider, Reranker) and decider.shrinkage.shrink
        if decider is self._decider and not is_shrunk:
            self._grow(_standardised(systems, utilities))

    def _grow(self, pairs: Iterable[tuple[str, float]]) -> None:
        """Takes the standardised scores of a list; those of one model alone tell nothing of it."""
        means = means_of_list(pairs)
        if len(means) > 1:
            for name, mean in means.items():
                self.totals[name].own.add(mean)

    def as_json(self) -> dict[str, Any]:
        """The content of its file."""
        rows = [{SYSTEM: name, **totals.as_json()} for name, totals in self.totals.items()]
        return {"kind": KIND, "format": FORMAT, "scored_by": self.scored_by, "systems": rows}

    def read(self) -> None:
        """Goes on from its file.

        Raises:
            InputError: it cannot be read, was damaged, or its means are of other scores.
        """
        data = means_file(str(self.path), MEND)
        if data.get("scored_by") != self.scored_by:
            kept, own = excerpt(data.get("scored_by")), excerpt(self.scored_by)
            problem = f"has means of {kept}, but {own} chooses"
            raise InputError(problem, where=str(self.path), fix="Name another file")
        self.totals |= totals_in(data, str(self.path))
        limits().check("systems", len(self.totals), f"{self.path}: systems")

    def changed(self) -> bytes | None:
        """The bytes of its file, if they are others than when this was asked last."""
        if self.path is None or not self._is_changed:
            return None
        self._is_changed = False
        content = json.dumps(with_checksum(self.as_json()), ensure_ascii=False, indent=1)
        return content.encode() + b"\n"

    def write(self, content: bytes | None) -> None:
        """Writes its file, if there is something to write, whole or not at all; raises ResourceError."""
        if self.path is not None and content is not None:
            try:
                with complete_file(self.path) as draft:
                    draft.write_bytes(content)
            except BaseException:
                self._is_changed = True  # it may be written another time
                raise


def _is_as_good(value: float | None, best: float | None) -> bool:
    return value is not None and best is not None and isclose(value, best, abs_tol=1e-12)


def _standardised(
    systems: Sequence[str], utilities: Sequence[float | None]
) -> Iterator[tuple[str, float]]:
    """(system, standardised utility) of candidates."""
    values = np.array([nan if value is None else value for value in utilities])
    return zip(systems, normalized(values, "zscore").tolist(), strict=True)


def totals_in(data: Mapping[str, Any], where: str) -> dict[str, ModelTotals]:
    """The totals of every model in the file of a record; raises InputError where it is none."""
    return {
        row[SYSTEM]: ModelTotals.read(row, f"{where}: {row[SYSTEM]}") for row in data["systems"]
    }


@contextmanager
def kept_record(names: Sequence[str], decider: Decider, path: Path | None) -> Iterator[PanelRecord]:
    """The record of a panel, which goes on from its file and is written there in the end.

    Raises:
        InputError: as `PanelRecord.read`, or the file cannot be written.
        ResumeError: another process keeps its record there.
    """
    record = PanelRecord(names, decider, path)
    if path is None:
        yield record
        return
    with locked(path):
        if path.exists():
            record.read()
        record.write(record.changed())  # tells now whether it can be
        try:
            yield record
        finally:
            record.write(record.changed())


@dataclass(frozen=True)
class Panel:
    """Several models upstream.

    Args:
        models: the models, the first of which gets what passes through.
        record: how they did so far.
        quorum: how many of them are waited for; None for all.
    """

    models: Sequence[PanelModel]
    record: PanelRecord
    quorum: int | None = None

    def check(self, deciders: Iterable[Decider], adaptive: bool) -> None:
        """Raises InputError for settings that do not go with these models."""
        names = [model.spec.name for model in self.models]
        if self.quorum is not None and self.quorum > len(names):
            problem = f"{self.quorum} of {len(names)} models"
            raise InputError(problem, where="quorum", fix="Lower it, or name more models")
        if adaptive:
            problem = "draws from one model until more would not change the choice"
            raise InputError(problem, where="adaptive", fix="Leave it out, or name one upstream")
        candidates = [Candidate("", None, {SYSTEM: name}) for name in names]
        for decider in deciders:
            _check_names(decider, candidates)


def _check_names(decider: Decider, candidates: Sequence[Candidate]) -> None:
    """Raises InputError where a prior or given means do not know a model."""
    pools = decider if isinstance(decider, MBRDecoder) else getattr(decider, "decoder", None)
    if isinstance(pools, MBRDecoder) and pools.pool.prior is not None:
        pools.pool.weights_of(candidates, "--upstream")
    means = decider.shrinkage.means if isinstance(decider, Reranker) else None
    if means is not None:
        systems = [str(candidate.fields[SYSTEM]) for candidate in candidates]
        means.shrunk(np.zeros(len(systems)), systems, 1.0)
