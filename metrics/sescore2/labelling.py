"""The stage that judges synthetic texts: pairs of a reference and a hypothesis with a score (see `severity`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..neural.models.files import model_files as files
from ..spec.user_code import NO_CODE, AllowedCode
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
    settings: Severity,
    device: str | None = None,
    on_progress: OnProgress = quiet,
    before: str = "perturb",
    folder: str = "label",
    allowed: AllowedCode = NO_CODE,
) -> Stage:
    """Judges the mistakes of all synthetic texts, whose words are those of the stage before.

    That stage may name a splitter of words from the modules that are `allowed`, and raises CodeRefusedError for others.

    Rows: "reference" and "hypothesis", "score" (their sum), "mistakes" (the score of each). A mistake that counts for
    none is not made; a text without any left is counted and left out.
    """
    texts = finished(work / "texts")
    perturbed = finished(work / before)
    words = perturbed.settings["words"]
    allowed.check_settings({"words": words})
    identity = {
        "before": perturbed.digest,
        "words": words,
        **asdict(settings),
        "stop_words": identity_of(settings.stop_words),
    }
    if settings.mlm:
        identity["mlm"] = files.digest(files.locate(settings.mlm))
    with opened(work / folder, identity) as stage:
        if stage.complete:
            return stage
        split = word_splitter(words)
        known = [split(row["text"]) for row in texts.rows()]
        model = MaskedLM(settings.mlm, device) if settings.mlm else None
        judge = Judge(settings, stop_words(settings.stop_words, known), known, model)
        for shard in perturbed.shards[len(stage.shards) :]:
            rows = list(perturbed.rows([shard]))
            stage.write(labelled(judge, rows))
            on_progress(SHARD * len(stage.shards))
        num_labelled = sum(1 for _ in stage.rows())
        num_perturbed = sum(1 for _ in perturbed.rows())
        counts = {"pairs": num_labelled, "without a mistake": num_perturbed - num_labelled}
        stage.finish(counts)
        return stage


def labelled(judge: Judge, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Judged pairs of the rows of `synthesis.perturb`."""
    # all mistakes of a shard are judged in one call
    mistakes: list[tuple[Words, Edit, str]] = []
    for row in rows:
        anchor = tuple(row["words"])
        source = row.get("source", "")
        edits = [Edit(start, end, tuple(words)) for start, end, words in row["edits"]]
        mistakes += [(anchor, edit, source) for edit in edits]
    judged = iter(zip(mistakes, judge.scores(mistakes), strict=True))
    for row in rows:
        anchor = tuple(row["words"])
        edits = []
        scores = []
        for _ in row["edits"]:
            (_, edit, _), score = next(judged)
            if score is not None:
                edits.append(edit)
                scores.append(score)
        if edits:
            yield {
                "reference": joined(anchor),
                "hypothesis": joined(applied(anchor, edits)),
                "score": round(sum(scores), 6),
                "mistakes": scores,
            }
