"""Writes the examples that are made of translations.txt: ten systems with scores, and n-best lists in many formats.

    python examples/make_examples.py [FOLDER]

A segment of translations.txt has three lines: source, reference, and a template with slots. A slot ``{ferry|boat|~ship
of it|!train}`` has wordings that are right, slightly wrong (~, 1 point) and wrong (!, 5 points). A system draws a
wording for every slot; its score of a segment, mqm, is the points of what it drew.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

HERE = Path(__file__).parent
# name: shares of slightly wrong and of wrong wordings; where wordings are right, how often it takes the first
SYSTEMS = {
    "brook": (0.02, 0.0, 0.8),
    "river": (0.06, 0.03, 0.4),
    "lake": (0.08, 0.02, 0.8),
    "hill": (0.10, 0.03, 0.7),
    "meadow": (0.16, 0.03, 0.7),
    "forest": (0.12, 0.06, 0.7),
    "island": (0.05, 0.08, 0.85),
    "valley": (0.30, 0.04, 0.6),
    "harbour": (0.25, 0.10, 0.7),
    "desert": (0.35, 0.20, 0.5),
}
FEW_SYSTEMS = ("brook", "lake", "valley", "desert")
FEW_DOCUMENTS = ("market", "bridge", "violin", "bees", "theatre", "chess", "harvest", "flood")
POINTS = {"~": 1, "!": 5}
SLOT = re.compile(r"\{([^}]*)\}")
CANDIDATES = 6


@dataclass(frozen=True)
class Segment:
    """A source with its reference and the template of its translations."""

    document: str
    source: str
    reference: str
    template: str


@dataclass(frozen=True)
class Translation:
    """A text, its points of errors, a log-probability, and its errors: first and last character, points."""

    text: str
    points: int
    logprob: float
    errors: tuple[tuple[int, int, int], ...] = ()


def read_segments() -> list[Segment]:
    """The segments of translations.txt."""
    segments: list[Segment] = []
    lines = (HERE / "translations.txt").read_text(encoding="utf-8").splitlines()
    document, rest = "", []
    for line in lines:
        if line.startswith("# "):
            document = line[2:]
            continue
        rest.append(line)
        if len(rest) == 3:
            segments.append(Segment(document, *rest))
            rest = []
    return segments


def translated(template: str, skill: tuple[float, float, float], random: Random) -> Translation:
    """One wording for every slot."""
    minor, major, first = skill
    points, logprob = 0, 0.0
    shift = 0  # of the text against the template, at a slot
    errors: list[tuple[int, int, int]] = []

    def wording(slot: re.Match[str]) -> str:
        nonlocal points, shift
        before = points
        drawn = drawn_of(slot)
        start = slot.start() + shift
        if points > before:
            errors.append((start, start + len(drawn) - 1, points - before))
        shift += len(drawn) - len(slot[0])
        return drawn

    def drawn_of(slot: re.Match[str]) -> str:
        nonlocal points, logprob
        options = slot[1].split("|")
        kinds = {mark: [o for o in options if o[0] == mark] for mark in POINTS}
        right = [option for option in options if option[0] not in POINTS]
        drawn = random.random()
        mark = "!" if drawn < major else "~" if drawn < major + minor else ""
        if kinds.get(mark):
            points += POINTS[mark]
            logprob -= 2.0 + random.random()
            return kinds[mark][0][1:]
        if len(right) == 1 or random.random() < first:
            logprob -= 0.5 * random.random()
            return right[0]
        logprob -= 0.5 + random.random()
        return right[1]

    text = SLOT.sub(wording, template)
    return Translation(text, points, round(logprob - 0.05 * len(text), 3), tuple(errors))


RATED = ("brook", "river", "lake", "valley")
ANNOTATORS = {  # how strict each is, and how likely an error is seen
    "ada": (0, 0.95),
    "ben": (6, 0.85),
    "cleo": (2, 0.7),
    "dan": (10, 0.9),
}
SEVERITIES = {1: "minor", 5: "major"}
DOMAINS = ("news", "social", "speech")


def human_evaluation(segments: list[Segment]) -> list[dict[str, object]]:
    """A segment per row, with the keys of WMT25: two annotators, the second of whom is missing now and then."""
    random = Random(29)
    rows: list[dict[str, object]] = []
    names = list(ANNOTATORS)
    documents = list(dict.fromkeys(segment.document for segment in segments))[:12]
    for n, document in enumerate(documents):
        own = [segment for segment in segments if segment.document == document]
        # two annotators have a whole document
        judges = names[n % 4], names[(n + 1 + n % 3) % 4]
        for i, segment in enumerate(own):
            outputs = {s: translated(segment.template, SYSTEMS[s], random) for s in RATED}
            both = judges if n % 4 else judges[:1]
            rows.append(
                {
                    "doc_id": f"de-en_US_#_{DOMAINS[n % 3]}_#_{document}_#_{i}",
                    "src_text": segment.source,
                    "refs": {"refA": {"ref": segment.reference}},
                    "tgt_text": {s: one.text for s, one in outputs.items()},
                    "scores": {s: rated(one, both, random) for s, one in outputs.items()},
                }
            )
    return rows


def rated(one: Translation, judges: Sequence[str], random: Random) -> dict[str, object]:
    """What annotators say of a text."""
    said: dict[str, object] = {}
    for wave, name in enumerate(judges):
        strictness, attention = ANNOTATORS[name]
        seen = [error for error in one.errors if random.random() < attention]
        lost = sum(7 * points for _, _, points in seen) + strictness + random.randrange(8)
        said[f"human{wave}"] = float(max(0, 100 - lost))
        said[f"errors{wave}"] = [
            {"start_i": start, "end_i": end, "severity": SEVERITIES[points]}
            for start, end, points in seen
        ]
        said[f"annotator{wave}"] = name
    return said


def systems_file(
    segments: list[Segment], names: tuple[str, ...], seed: int
) -> list[dict[str, object]]:
    """A document per row, with the named systems."""
    random = Random(seed)
    rows: list[dict[str, object]] = []
    for document in dict.fromkeys(segment.document for segment in segments):
        own = [segment for segment in segments if segment.document == document]
        outputs = {
            name: [translated(segment.template, skill, random) for segment in own]
            for name, skill in SYSTEMS.items()
            if name in names
        }
        row: dict[str, object] = {
            "id": document,
            "source": [segment.source for segment in own],
            "references": {"ref": [segment.reference for segment in own]},
            "systems": {name: [one.text for one in found] for name, found in outputs.items()},
            "mqm": {name: [one.points for one in found] for name, found in outputs.items()},
        }
        rows.append(row)
    return rows


def candidates_of(segments: list[Segment]) -> list[list[Translation]]:
    """What a beam of `CANDIDATES` could hold, the likeliest first."""
    random = Random(23)
    lists = []
    for segment in segments:
        found: dict[str, Translation] = {}
        while len(found) < CANDIDATES:
            one = translated(segment.template, (0.12, 0.06, 0.7), random)
            # a model is not as sure of what is right as its makers are
            logprob = round(0.3 * one.logprob - 4 * random.random(), 3)
            found.setdefault(one.text, replace(one, logprob=logprob))
        lists.append(sorted(found.values(), key=lambda one: -one.logprob))
    return lists


def moses(lists: list[list[Translation]]) -> str:
    """Moses: id ||| text ||| features ||| score."""
    return "".join(
        f"{n} ||| {one.text} ||| LM0= {one.logprob} WordPenalty0= {-len(one.text.split())} ||| "
        f"{one.logprob / 2:.4f}\n"
        for n, found in enumerate(lists)
        for one in found
    )


def marian(lists: list[list[Translation]]) -> str:
    """Marian: id ||| text ||| F0= log-probability ||| score by length."""
    return "".join(
        f"{n} ||| {one.text} ||| F0= {one.logprob} ||| "
        f"{one.logprob / (1 + len(one.text.split())):.6f}\n"
        for n, found in enumerate(lists)
        for one in found
    )


def fairseq(lists: list[list[Translation]], segments: list[Segment]) -> str:
    """The log of fairseq-generate; its scores are logarithms of base 2, by token."""
    ln2 = 0.6931471805599453
    lines = []
    for n, (found, segment) in enumerate(zip(lists, segments, strict=True)):
        lines += [f"S-{n}\t{segment.source}", f"T-{n}\t{segment.reference}"]
        for one in found:
            tokens = 1 + len(one.text.split())
            score = one.logprob / ln2 / tokens
            lines += [f"H-{n}\t{score:.6f}\t{one.text}", f"D-{n}\t{score:.6f}\t{one.text}"]
            lines.append(f"P-{n}\t" + " ".join([f"{score:.4f}"] * tokens))
    return "".join(f"{line}\n" for line in lines)


def batch(lists: list[list[Translation]], segments: list[Segment]) -> tuple[str, str]:
    """What is sent to a batch service of OpenAI's form, and what comes back."""
    asked, answered = [], []
    for n, (found, segment) in enumerate(zip(lists, segments, strict=True)):
        messages = [{"role": "user", "content": f"Translate into English: {segment.source}"}]
        body = {"model": "translator", "n": len(found), "messages": messages}
        url = "/v1/chat/completions"
        asked.append({"custom_id": f"de-{n}", "method": "POST", "url": url, "body": body})
        choices = [
            {"index": i, "message": {"role": "assistant", "content": one.text}}
            for i, one in enumerate(found)
        ]
        response = {"status_code": 200, "body": {"choices": choices}}
        answered.append({"custom_id": f"de-{n}", "response": response, "error": None})
    return json_lines(asked), json_lines(answered)


def json_lines(rows: Sequence[Mapping[str, object]]) -> str:
    """One JSON value per line."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def made() -> dict[str, str]:
    """The text of every file by its name."""
    segments = read_segments()
    first = segments[:12]
    lists = candidates_of(first)
    asked, answered = batch(lists, first)
    first_documents = [segment for segment in segments if segment.document in FEW_DOCUMENTS]
    return {
        "systems.jsonl": json_lines(systems_file(segments, tuple(SYSTEMS), 17)),
        "humeval.jsonl": json_lines(human_evaluation(segments)),
        "other-systems.jsonl": json_lines(systems_file(first_documents, FEW_SYSTEMS, 5)),
        "nbest.moses": moses(lists),
        "nbest.marian": marian(lists),
        "generate.out": fairseq(lists, first),
        "samples.txt": "".join(f"{one.text}\n" for found in lists for one in found),
        "src.txt": "".join(f"{segment.source}\n" for segment in first),
        "target.txt": "".join(f"{segment.reference}\n" for segment in first),
        "docids.txt": "".join(f"{segment.document}\n" for segment in first),
        "batch_input.jsonl": asked,
        "batch_output.jsonl": answered,
    }


def main() -> None:
    """Write the files into the folder that is named, or beside this program."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name, text in made().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
