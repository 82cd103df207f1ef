"""Features of a combination from metrics that read context: scores of whole documents, expectations as in MBR."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from discorank import Context, InputError, load_metric
from discorank.metrics.scorer import Reading
from discorank.metrics.spec.checked_settings import settings
from discorank.rerank.lists import read_list
from discorank.rerank.training.combination_training import (
    Preferences,
    Tuning,
    features,
    train_combination,
)

from ...metrics.test_combination import lists, records
from ...support.contextual import Echo


@settings
class Following(Echo):
    """Reads every hypothesis after the sentences before it in its own text."""

    name: ClassVar[str] = "following"

    @property
    def reads(self) -> Reading:
        return Reading(self.context, "hypothesis")


def test_scores_with_context_are_those_of_whole_documents() -> None:
    """Read after the sentences before in the reference; lists are given in batches of whole documents."""
    all_lists = records()
    with_context = features(Echo(), all_lists, "references")
    for k in range(4):
        texts = [record.candidates[k].text for record in all_lists]
        references = [record.references[0] for record in all_lists]
        expected = Echo().score(
            texts, references, documents=[record.document or "" for record in all_lists]
        )
        assert [values[k] for values in with_context] == pytest.approx(expected.tolist(), abs=1e-12)
    assert not np.allclose(
        np.stack(with_context), np.stack(features(Echo(context=0), all_lists, "references"))
    )


def test_expectations_with_context_are_read_after_the_first_candidates() -> None:
    all_lists = records()
    values = features(Echo(), all_lists, "candidates")
    for i, record in enumerate(all_lists):
        before = [
            other.candidates[0].text
            for other in all_lists[max(0, i - 2) : i]
            if other.document == record.document
        ]
        texts = [candidate.text for candidate in record.candidates]
        expected = (
            Echo()
            .pairwise(texts, texts, context=Context(target=tuple(map(str, before))))
            .mean(axis=1)
        )
        assert values[i] == pytest.approx(expected, abs=1e-12)


def test_lists_that_lend_context_are_no_training_data() -> None:
    rows = lists()
    for row in rows[::3]:
        row["context_only"] = True
    all_lists = [read_list(row) for row in rows]
    whole, lent = (features(Echo(), some, "references") for some in (records(), all_lists))
    assert [v.tolist() for v in lent] == [v.tolist() for i, v in enumerate(whole) if i % 3]
    model = train_combination(
        [Echo(), load_metric("chrf")],
        all_lists,
        Preferences("errors", lower=True),
        Tuning(draws=10),
    )
    assert model["lists"] == 16
    for row in rows[::3]:
        del row["references"]  # then they are no context of references
    bare = features(Echo(), [read_list(row) for row in rows], "references")
    assert bare[0].tolist() == features(Echo(), [read_list(rows[1])], "references")[0].tolist()


def test_a_jump_cuts_the_context() -> None:
    rows = lists(3)
    for row, position in zip(rows, (0, 1, 5), strict=True):
        row["position"] = position
    for against in ("references", "candidates"):
        values = features(Echo(), [read_list(row) for row in rows], against)
        assert values[2].tolist() == features(Echo(), [read_list(rows[2])], against)[0].tolist()
        assert values[1].tolist() != features(Echo(), [read_list(rows[1])], against)[0].tolist()


def test_training_with_context_says_what_is_missing() -> None:
    rows = lists(6)
    del rows[1]["document"]
    with pytest.raises(
        InputError, match=r"list l1: no document, but a metric reads context.*context=0"
    ):
        features(Echo(), [read_list(row) for row in rows], "candidates")
    own = Following(context=1)
    same = lists(3)
    for row in same:
        row["candidates"].sort(key=lambda candidate: candidate["system"])
    assert features(own, [read_list(row) for row in same], "references")[1].tolist() != [0, 0, 0, 0]
    with pytest.raises(
        InputError, match=r'list l1: other systems than the list before.*context_from="reference"'
    ):
        features(own, [read_list(row) for row in lists(3)], "references")
