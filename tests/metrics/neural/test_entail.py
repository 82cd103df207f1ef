"""Entailment: the probabilities of transformers' own forward passes, windows, sentences, outputs, refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discorank import Document, load_metric
from discorank.metrics.errors import InputError, ModelLoadError, TruncationWarning
from discorank.metrics.neural.entail import _windows_of_words
from discorank.metrics.neural.models.pretrained import quietly

from ...support.tiny_classifiers import write_classifier

NLI = ["contradiction", "neutral", "entailment"]
SOURCE = "The cat sat on a mat. The dog sees a man! A man reads the old house."
TEXTS = ["The cat sat. A man reads the house.", "The dog sees. The cat reads", "", "A man."]


def loaded(name: str, **settings: Any) -> Any:
    return load_metric(name, **settings)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    folders: dict[str, Path] = {}

    def make(family: str, labels: Any = NLI) -> Path:
        key = f"{family}-{labels}"
        if key not in folders:
            folders[key] = write_classifier(
                tmp_path_factory.mktemp("model"), family, labels, chat=False
            )
        return folders[key]

    return make


def probabilities(folder: Path, windows: list[str], text: str) -> np.ndarray[Any, Any]:
    """Softmax of the outputs of transformers, [sentences, windows, outputs]."""
    import torch
    import transformers as library

    transformers: Any = library
    with quietly():
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = []
    for sentence in [part.strip() + "." for part in text.split(".") if part.strip()]:
        sentence = sentence if sentence in text else sentence[:-1]
        row = []
        for window in windows:
            read = tokenizer([window], [sentence], return_tensors="pt")
            with torch.no_grad():
                row.append(model(**read).logits[0].double().softmax(0).numpy())
        rows.append(row)
    return np.array(rows)


SINGLE = ["The cat sat on a mat.", "The dog sees a man!", "A man reads the old house."]


@pytest.mark.parametrize("family", ["DebertaV2", "Roberta", "Bert"])
def test_equals_transformers(family: str, made: Callable[..., Path]) -> None:
    folder = made(family)
    metric = loaded("entail", model=str(folder), device="cpu")
    least = loaded("entail", model=str(folder), device="cpu", agg="min")
    less = loaded("entail", model=str(folder), device="cpu", contradiction=True)
    for text in (TEXTS[0], TEXTS[1]):
        p = probabilities(folder, SINGLE, text)
        assert np.ptp(p[..., 2]) > 1e-3
        support = p[..., 2].max(axis=1)
        contradicted = p[..., 0].max(axis=1)
        own = [m.score([text], None, [SOURCE])[0] for m in (metric, least, less)]
        expected = [support.mean(), support.min(), (support - contradicted).mean()]
        np.testing.assert_allclose(own, expected, atol=2e-5)


def test_windows(made: Callable[..., Path]) -> None:
    folder = made("Roberta")
    whole = [" ".join(SINGLE)]
    pairs = [" ".join(SINGLE[:2]), SINGLE[2]]
    for settings, windows in (
        ({"window": 0}, whole),
        ({"window": 2}, pairs),
        ({"window_words": 11}, pairs),
        ({"window_words": 100}, whole),
    ):
        metric = loaded("entail", model=str(folder), device="cpu", **settings)
        assert metric.scorer.windows(SINGLE) == windows
        p = probabilities(folder, windows, TEXTS[0])[..., 2].max(axis=1).mean()
        assert metric.score([TEXTS[0]], None, [SOURCE])[0] == pytest.approx(p, abs=2e-5)
    assert _windows_of_words(["a b c", "d", "e f"], 2) == ["a b c", "d", "e f"]
    assert _windows_of_words([], 2) == []


def test_what_is_too_long_is_cut_in_the_longer_text(made: Callable[..., Path]) -> None:
    metric = loaded("entail", model=str(made("Roberta")), device="cpu", window=0)
    with pytest.warns(TruncationWarning):
        value = metric.pairwise(["A man."], [], "the cat sat on a mat " * 40)
    assert 0 < value[0, 0] < 1


def test_documents_are_read_by_their_sentences(made: Callable[..., Path]) -> None:
    metric = loaded("entail", model=str(made("Roberta")), device="cpu")
    plain = metric.pairwise(TEXTS, [], SOURCE)
    split = [Document(["The cat sat.", " ", "A man reads the house."]), *TEXTS[1:]]
    assert metric.pairwise(split, [], Document(SINGLE)).tobytes() == plain.tobytes()
    assert plain[2, 0] == 0
    assert metric.pairwise(["A man."], [], " ")[0, 0] == 0
    alone = [metric.pairwise([text], [], SOURCE)[0, 0] for text in TEXTS]
    assert plain[:, 0].tolist() == alone


def test_one_output_is_a_probability_of_its_own(made: Callable[..., Path]) -> None:
    folder = made("DebertaV2", 1)
    metric = loaded("entail", model=str(folder), device="cpu")
    (told,) = metric.explain(TEXTS[1], source=SOURCE)
    supports = [one["support"] for one in told["sentences"]]
    assert supports == sorted(supports)
    assert all(0 < support < 1 for support in supports)
    assert np.mean(supports) == pytest.approx(metric.score([TEXTS[1]], None, [SOURCE])[0])
    assert {one["sentence"] for one in told["sentences"]} == {"The dog sees.", "The cat reads"}
    assert {one["window"] for one in told["sentences"]} <= set(SINGLE)


def test_outputs_are_found_or_named(made: Callable[..., Path]) -> None:
    plain = made("Roberta", ["LABEL_0", "LABEL_1"])
    with pytest.raises(InputError, match=r"2 outputs.*LABEL_0, LABEL_1"):
        loaded("entail", model=str(plain)).scorer  # noqa: B018
    by_number = loaded("entail", model=str(plain), output=1, device="cpu")
    by_name = loaded("entail", model=str(plain), output="LABEL_1", device="cpu")
    values = [m.pairwise(TEXTS, [], SOURCE).tobytes() for m in (by_number, by_name)]
    assert values[0] == values[1]
    with pytest.raises(InputError, match=r"contradiction.*2 outputs"):
        loaded("entail", model=str(plain), output=1, contradiction=True).scorer  # noqa: B018
    with pytest.raises(InputError, match="window=2 beside window_words"):
        loaded("entail", model=str(plain), window=2, window_words=9)
    with pytest.raises(ModelLoadError, match="no model is named"):
        loaded("entail").scorer  # noqa: B018


def test_the_cost_counts_windows_and_sentences(made: Callable[..., Path]) -> None:
    from discorank.metrics.representations import Block
    from discorank.metrics.text.texts import Item

    metric = loaded("entail", model=str(made("Roberta")))
    scorer = metric.unloaded()
    reps, _ = scorer.prepare([Item(SOURCE), Item(TEXTS[0]), Item("The cat sat.")])
    passes = scorer.passes(reps, Block(np.array([1, 2]), np.array([], np.int64), 0))
    assert len(passes.lengths) == 3 * 2  # "The cat sat." is in both texts
    assert passes.flops > 0
