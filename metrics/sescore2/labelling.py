"""The stage that judges synthetic texts: pairs of a reference and a hypothesis with a score (see `severity`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..neural.models import model_files as files
from .edits import Edit, applied
from .job_stages import OnProgress, Stage, finished, opened
from .masked_model import MaskedLM
from .severity import Judge, Severity
from .spaced_words import Words, joined, word_splitter
from .stopwords import identity_of, stop_words
from .synthesis import SHARD, quiet

Row = Mapping[str, Any]


def label(
    work: Path,
    how: Severity,
    device: str | None = None,
    on_progress: OnProgress = quiet,
    before: str = "perturb",
    folder: str = "label",
) -> Stage:
    """Judges the mistakes of all synthetic texts, whose words are those of the stage before.

    Rows: "reference" and "hypothesis", "score" (their sum), "mistakes" (the score of each). A mistake that counts for
    none is not made; a text without any left is counted and left out.
    """
    texts, made = finished(work / "texts"), finished(work / before)
    words = made.settings["words"]
    identity = {
        "before": made.digest,
        "words": words,
        **asdict(how),
        "stop_words": identity_of(how.stop_words),
    }
    if how.mlm:
        identity["mlm"] = files.digest(files.locate(how.mlm))
    with opened(work / folder, identity) as stage:
        if stage.complete:
            return stage
        split = word_splitter(words)
        known = [split(row["text"]) for row in texts.rows()]
        model = MaskedLM(how.mlm, device) if how.mlm else None
        judge = Judge(how, stop_words(how.stop_words, known), known, model)
        for shard in made.shards[len(stage.shards) :]:
            stage.write(labelled(judge, list(made.rows([shard]))))
            on_progress(SHARD * len(stage.shards))
        kept, given = (sum(1 for _ in rows.rows()) for rows in (stage, made))
        stage.finish({"pairs": kept, "without a mistake": given - kept})
        return stage


def labelled(judge: Judge, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Judged pairs of the rows of `synthesis.perturb`."""
    mistakes: list[tuple[Words, Edit, str]] = []
    for row in rows:
        anchor = tuple(row["words"])
        mistakes += [
            (anchor, Edit(s, e, tuple(words)), row.get("source", ""))
            for s, e, words in row["edits"]
        ]
    scores = iter(zip(mistakes, judge.scores(mistakes), strict=True))
    for row in rows:
        anchor = tuple(row["words"])
        own = [next(scores) for _ in row["edits"]]
        kept = [(edit, score) for (_, edit, _), score in own if score is not None]
        if kept:
            yield {
                "reference": joined(anchor),
                "hypothesis": joined(applied(anchor, [edit for edit, _ in kept])),
                "score": round(sum(score for _, score in kept), 6),
                "mistakes": [score for _, score in kept],
            }
