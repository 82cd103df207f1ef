"""What `serve --adaptive` saves: candidates that are not drawn, and what is lost by it, for texts, votes and calls.

    python -m benchmarks.choice_quality.stopping_rounds benchmarks/results/questions-*.jsonl.gz [--systems FILE ...]

Recorded lists are replayed in rounds of any size, with the bound of the rule and with others. Texts are chosen by chrF,
answers by their votes, calls by the votes of `tool_calls`: each answer is the value of a call, a text without one
talks. `--systems` has documents with the outputs of several systems, whose segments are lists of texts in random order.
Calls are simulated too: shares of tools and arguments from Dirichlet(4, .5, ..., .5) or, harder, Dirichlet(1, ..., 1).

Regret is what the choice has less of the expected utility, or of the votes, in the whole list than the choice of all,
as a share of that; `other` is how often it is another text, answer or call. Intervals are Wilson's, of 95 %. `asked` is
how many rounds there are. The last columns take the bound, of those tried, that saves most at a regret of at most 1 %
(found on these lists themselves).
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.choice_quality.stopping_votes import flat, interval, likely
from discorank import MBRDecoder, StoppingRule, load_metric
from discorank.integrations.proxy.tool_calls import CallVote, Tools, call_vote
from discorank.rerank.lists import Distinct
from discorank.rerank.stopping_rule import Outlook, changing_in_steps

ROUNDS = ((4, 4), (4, 2), (4, 1), (3, 1), (2, 1))  # candidates of the first round, and of any other
BOUNDS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
NUM_SIMULATED = 400
TOOLS = Tools({**dict.fromkeys(map(str, range(8))), "answer": None})


class Replay(NamedTuple):
    """A recorded list: how many candidates it has, the outlook after the first n, and the loss of the choice then."""

    cap: int
    outlook: Callable[[int], Outlook]
    loss: Callable[[int], float]
    is_other: Callable[[int], bool]


def of_texts(lists: Sequence[Sequence[str]], utility: str) -> Iterator[Replay]:
    """Lists of texts under a utility, whose matrix is that of all."""
    decoder = MBRDecoder(utility, keep_matrix=True, nbest=None)
    for texts, ranking in zip(lists, decoder.decode([list(texts) for texts in lists]), strict=True):
        if ranking.matrix is not None:
            yield _of_matrix(np.array(ranking.matrix), Distinct(ranking.candidates).of, len(texts))


def _of_matrix(matrix: Any, of: Any, cap: int) -> Replay:
    def prefix(n: int) -> tuple[Any, Any]:
        counts = np.bincount(of[:n])
        return matrix[: len(counts), : len(counts)], counts

    def chosen(n: int) -> int:
        u, counts = prefix(n)
        return int(np.argmax(np.round(u @ counts / n, 9)))

    means = matrix @ np.bincount(of) / cap
    best = means[chosen(cap)]
    rule = StoppingRule(cap=max(2, cap))
    return Replay(
        cap,
        lambda n: rule.outlook(*prefix(n)),
        lambda n: float((best - means[chosen(n)]) / best) if best > 0 else 0.0,
        lambda n: not np.array_equal(matrix[chosen(n)], matrix[chosen(cap)]),
    )


def of_calls(lists: Sequence[Sequence[tuple[str, str] | None]]) -> Iterator[Replay]:
    """Lists of calls, each a name and a value; None talks."""
    for calls in lists:
        choices = [_choice(call) for call in calls]
        yield _of_choices(choices, calls)


def _choice(call: tuple[str, str] | None) -> dict[str, Any]:
    if call is None:
        return {"message": {"content": "text"}}
    function = {"name": call[0], "arguments": json.dumps({"value": call[1]})}
    return {"message": {"tool_calls": [{"type": "function", "function": function}]}}


def _of_choices(choices: Sequence[dict[str, Any]], calls: Sequence[Any]) -> Replay:
    def vote(n: int) -> CallVote:
        return call_vote(choices[:n], TOOLS)

    def chosen(n: int) -> Any:
        voted = vote(n)
        if voted.texts is None:
            return None
        kinds = list(voted.texts)
        return calls[voted.numbers[kinds.index(max(dict.fromkeys(kinds), key=kinds.count))]]

    cap = len(choices)
    whole = chosen(cap)
    votes = calls.count(whole)
    return Replay(
        cap,
        lambda n: Outlook(changing_in_steps(vote(n).steps, cap - n), 0.0, True),
        lambda n: max(0.0, votes - calls.count(chosen(n))) / votes,
        lambda n: bool(chosen(n) != whole),
    )


def simulated_calls(
    parameters: Callable[[int], list[float]], seed: int = 0
) -> list[list[tuple[str, str] | None]]:
    """Lists of 16 calls: a tenth talks, on average; one to three tools, whose calls have two to five values."""
    draw = np.random.default_rng(seed)
    lists = []
    for _ in range(NUM_SIMULATED):
        talks, names = draw.beta(1, 9), draw.dirichlet(parameters(int(draw.integers(1, 4))))
        values = [draw.dirichlet(parameters(int(draw.integers(2, 6)))) for _ in names]
        calls: list[tuple[str, str] | None] = []
        for _ in range(16):
            name = int(draw.choice(len(names), p=names))
            value = int(draw.choice(len(values[name]), p=values[name]))
            calls.append(None if draw.random() < talks else (str(name), str(value)))
        lists.append(calls)
    return lists


class Saved(NamedTuple):
    """Means over lists: rounds; in percent candidates saved, regret, and other choices with their interval."""

    rounds: float
    saved: float
    regret: float
    other: float
    low: float
    high: float


class Replayed:
    """Lists whose outlooks are kept, so that bounds and rounds are tried at no cost."""

    def __init__(self, replays: Sequence[Replay]) -> None:
        self.replays = [replay for replay in replays if replay.cap > 4]
        self._known: dict[tuple[int, int], Outlook] = {}

    def _outlook(self, number: int, n: int) -> Outlook:
        if (number, n) not in self._known:
            self._known[number, n] = self.replays[number].outlook(n)
        return self._known[number, n]

    def result(self, first: int, step: int, bound: float | None) -> Saved:
        """What a rule saves and loses."""
        saved, regret, rounds, others = [], [], 0, 0
        for number, replay in enumerate(self.replays):
            rule = StoppingRule(cap=replay.cap, first=first, step=step, bound=bound)
            n = first
            rounds += 1
            while more := rule.next_round(n):
                if rule.is_safe(self._outlook(number, n)):
                    break
                n += more
                rounds += 1
            saved.append(1 - n / replay.cap)
            regret.append(replay.loss(n))
            others += replay.is_other(n)
        low, high = interval(others, len(saved))
        shares = (np.mean(saved), np.mean(regret), others / len(saved), low, high)
        return Saved(rounds / len(saved), *(100 * float(share) for share in shares))

    def rows(self, name: str) -> Iterator[str]:
        """The lines of the table."""
        for first, step in ROUNDS:
            ours = self.result(first, step, None)
            tried = [(self.result(first, step, bound), bound) for bound in BOUNDS]
            allowed = [(one.saved, bound) for one, bound in tried if one.regret <= 1.0]
            most = "| |" if not allowed else "{:.1f} % | {} |".format(*max(allowed))
            cells = (
                name,
                f"{len(self.replays)}",
                f"{first}, {step}",
                f"{ours.rounds:.1f}",
                f"{ours.saved:.1f} %",
                f"{ours.regret:.2f} %",
                f"{ours.other:.1f} % [{ours.low:.1f}, {ours.high:.1f}]",
            )
            yield f"| {' | '.join(cells)} | {most}"


def recorded(path: Path) -> list[dict[str, Any]]:
    """The values of a file of JSON lines."""
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def segments_of(path: Path, number: int) -> list[list[str]]:
    """The outputs of all systems for some segments, in random order."""
    chance = random.Random(0)
    segments = [
        [texts[place] for texts in document["systems"].values()]
        for document in recorded(path)
        for place in range(len(document["source"]))
    ]
    chosen = chance.sample(segments, min(number, len(segments)))
    return [chance.sample(texts, len(texts)) for texts in chosen]


def answers_as_calls(lists: Sequence[Sequence[str]]) -> list[list[tuple[str, str] | None]]:
    """The answer of each text as the value of a call."""
    calls = []
    ((_, vote),) = load_metric("vote").parts
    for texts in lists:
        answers = vote.answers_of(list(texts)) or []
        calls.append([None if answer is None else ("answer", answer.key) for answer in answers])
    return calls


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lists", type=Path, nargs="+")
    parser.add_argument("--systems", type=Path, nargs="*", default=[])
    parser.add_argument("--segments", type=int, default=200)
    options = parser.parse_args()
    print("| | lists | rounds of | asked | saved | regret | other | saved at 1 % | its bound |")
    print("|---|---|---|---|---|---|---|---|---|")
    rows = [row for path in options.lists for row in recorded(path)]
    texts = [[one["text"] for one in row["candidates"]] for row in rows]
    sets = {"texts, chrF": list(of_texts(texts, "chrf")), "votes": list(of_texts(texts, "vote"))}
    for path in options.systems:
        segments = segments_of(path, options.segments)
        sets[f"{path.name.partition('.jsonl')[0]}, chrF"] = list(of_texts(segments, "chrf"))
    sets["answers as calls"] = list(of_calls(answers_as_calls(texts)))
    sets["calls, likely"] = list(of_calls(simulated_calls(likely)))
    sets["calls, harder"] = list(of_calls(simulated_calls(flat)))
    for name, replays in sets.items():
        for line in Replayed(replays).rows(name):
            print(line, flush=True)


if __name__ == "__main__":
    main()
