"""``discorank sample SYSTEMS -n 20 -o SEGMENTS.jsonl``: which segments, or documents, to have judged next."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from ...integrations.formats.human_scores import HumanKey, with_judged
from ...integrations.formats.readers.pearmut import CampaignStyle, campaign_of
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, Rare, settings
from ...rerank.runs.row_forms import as_line
from ...rerank.training.segments_to_judge import Proposal, Proposed, Unit, proposed
from ..options import Options, needed
from ..options.inputs import CodeOptions, cache_in, metric_in
from ..options.system_outputs import judged_rows, systems_documents
from ..running import check_not_input, check_writable, complete_or_absent
from ..terminal.console import say

SCORE = "score"  # the key to fill in, where none is named
_TAKEN = frozenset({"id", "order", "source", "systems", "references"})


@settings
class SampleOptions:
    """What is proposed, and where it goes.

    Args:
        input: the systems file, a document per line.
        count: how many segments, or documents.
        by: what is judged, segment or document.
        human: the key of the human scores, such as mqm: what has one is left out, and rows have it, to be filled in.
        judged: files of judgements, such as rows of sample that were filled in: what is judged there is left out too.
        utility: by which texts differ.
        as_systems: references to treat as systems.
        include: further keys that hold systems.
        language_pair: the language pair that is read, of files with several.
        mqm_weights: what errors of MQM tables count, such as major=10 minor/style=0, where not as at WMT.
        to: rows, or a campaign of Pearmut with blinded systems, a document with its segments at a time: pearmut add
            CAMPAIGN.json; pearmut run.
        annotators: of a campaign: how many there are; each sees every text.
        contrastive: a campaign that shows all systems side by side, in place of one at a time.
        output: the file of rows, or the campaign; stdout if not given.
    """

    input: str | None = None
    count: Annotated[int, Field(ge=1)] = 20
    by: Unit = "segment"
    human: str | None = None
    judged: tuple[str, ...] = ()
    utility: str = "chrf + 100*rouge-l"
    as_systems: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    language_pair: Annotated[str | None, Rare()] = None
    mqm_weights: Annotated[tuple[str, ...], Rare()] = ()
    to: Literal["rows", "pearmut"] = "rows"
    annotators: Annotated[Annotated[int, Field(ge=1, le=1000)] | None, Rare()] = None
    contrastive: Annotated[bool, Rare()] = False
    output: str | None = None


OPTIONS = Options(
    "sample",
    "Propose the segments, or whole documents, whose judgements tell most of several systems: easy and hard ones, "
    "where texts differ, over many documents. A row per segment has its source, references, every system's text, and a "
    "null for every score: discorank train prior SYSTEMS --judged SEGMENTS reads them, and the annotations of a "
    "campaign (--to pearmut) too. Nothing is drawn at random.",
    [SampleOptions, CodeOptions],
    positional={"input": "?"},
    short={"output": "o", "count": "n", "utility": "u"},
    first=["input", "count", "human", "by", "utility", "output"],
    examples=[
        "sample examples:systems.jsonl -n 10 --human mqm:lower -o to-judge.jsonl",
        "sample examples:systems.jsonl -n 4 --by document --human mqm:lower",
        "sample examples:systems.jsonl -n 5 --human mqm:lower -u bleu",
    ],
)


def run(arguments: Sequence[str]) -> int:
    """Proposes; returns the exit code."""
    values = OPTIONS.parse(arguments)
    path, out = needed(values, "input", "SYSTEMS"), values["output"]
    if out not in (None, "-"):
        check_not_input(out, [path, *values["judged"]])
        check_writable(out)
    key = replace(HumanKey.read(values["human"] or SCORE), may_lack=True)
    if key.name in _TAKEN:
        problem = f"{key.name!r} is a key of rows"
        raise InputError(problem, where="--human", fix="Give it another name")
    for option in ("annotators", "contrastive"):
        if values[option] and values["to"] != "pearmut":
            problem, fix = "is of campaigns", "Add --to pearmut"
            raise InputError(problem, where=f"--{option}", fix=fix)
    proposals = _proposed(path, key, values)
    if values["to"] == "pearmut":
        name = "campaign" if out in (None, "-") else Path(out).stem
        style = CampaignStyle(values["annotators"] or 1, values["contrastive"])
        lines = [as_line(campaign_of(proposals.segments, name, style))]
    else:
        lines = [as_line(row_of(proposal, key.name)) for proposal in proposals.segments]
    if out in (None, "-"):
        sys.stdout.write(b"".join(lines).decode("utf-8"))
    else:
        with complete_or_absent(out) as file:
            file.writelines(lines)
    say(closing_line(proposals, path, values), values["quiet"])
    return 0


def _proposed(path: str, key: HumanKey, values: Mapping[str, Any]) -> Proposed:
    """The segments of a file to judge."""
    utility = metric_in(values, values["utility"])
    documents = systems_documents(path, values, [key])
    if values["judged"]:
        documents = with_judged(documents, judged_rows(values, [key]), key.name)
    try:
        return proposed(documents, utility, values["count"], values["by"], cache_in(values))
    except InputError as error:
        raise error.inside(path) from None


def row_of(proposal: Proposal, key: str) -> dict[str, Any]:
    """A segment to judge, as a row: a whole text of a systems file, with null for every score."""
    document, i = proposal.document, proposal.segment
    row: dict[str, Any] = {"id": proposal.id, "order": proposal.order}
    if document.source is not None:
        row["source"] = document.source[i]
    row["references"] = {name: texts[i] for name, texts in document.references.items()}
    row["systems"] = {name: texts[i] for name, texts in document.systems.items()}
    row[key] = dict.fromkeys(document.systems)
    return row


def closing_line(proposals: Proposed, path: str, values: Mapping[str, Any]) -> str:
    """How many are proposed, and of how many; of a file whose scores are not read all count as not judged."""
    number = proposals.segments[-1].order if proposals.segments else 0
    unit, count = values["by"], values["count"]
    judgements_are_read = bool(values["human"] or values["judged"])
    of = f"{number} of {proposals.left} {unit}s" + judgements_are_read * " that nobody judged"
    if unit == "document":
        of += f" ({len(proposals.segments)} segments)"
    short = f"; {count} were asked for, and these are all" if number < count else ""
    return f"{path}: {of}{short}"
