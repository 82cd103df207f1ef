"""integrations/custom_generate as transformers loads it: the folder is the argument of model.generate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from discorank import InputError  # noqa: E402
from discorank.integrations import huggingface  # noqa: E402

from ..support.tiny_generators import model_of, tokenizer_of  # noqa: E402

FOLDER = str(Path(__file__).parents[2] / "integrations" / "custom_generate")
TEXTS = ["the cat sat", "a dog"]
NEW = 6
TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that transformers loads is copied into a folder of the test."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path))


def inputs_of(family: str) -> dict[str, Any]:
    tokenizer = tokenizer_of(family)
    tokenizer.padding_side = "left"
    return dict(tokenizer(TEXTS, return_tensors="pt", padding=True))


def generated(family: str, **more: Any) -> Any:
    return model_of(family).generate(
        custom_generate=FOLDER,
        trust_remote_code=True,
        tokenizer=tokenizer_of(family),
        utility="chrf",
        num_candidates=6,
        seed=3,
        max_new_tokens=NEW,
        **more,
    )


@pytest.mark.parametrize("family", ["bart", "llama"])
def test_the_folder_chooses_what_the_function_chooses(family: str) -> None:
    inputs = inputs_of(family)
    inside = huggingface.custom_generate(tokenizer_of(family), "chrf", num_candidates=6, seed=3)
    expected = model_of(family).generate(**inputs, custom_generate=inside, max_new_tokens=NEW)
    assert torch.equal(generated(family, **inputs), expected)


@pytest.mark.parametrize("family", ["bart", "llama"])
def test_several_sequences_are_the_best_first(family: str) -> None:
    inputs = inputs_of(family)
    three = generated(family, **inputs, num_return_sequences=3)
    assert len(three) == 3 * len(TEXTS)
    width = min(three.shape[1], generated(family, **inputs).shape[1])
    assert torch.equal(three[::3, :width], generated(family, **inputs)[:, :width])
    texts = tokenizer_of(family).batch_decode(three, skip_special_tokens=True)
    assert len(set(texts[:3])) > 1, "not three times the best"


def test_conversations() -> None:
    tokenizer = tokenizer_of("llama")
    tokenizer.chat_template = TEMPLATE
    messages = [[{"role": "user", "content": text}] for text in TEXTS]
    chosen = model_of("llama").generate(
        custom_generate=FOLDER,
        trust_remote_code=True,
        tokenizer=tokenizer,
        messages=messages,
        num_candidates=4,
        max_new_tokens=NEW,
    )
    assert len(chosen) == 2
    outside = huggingface.generate(
        model_of("llama"), tokenizer, messages, num_candidates=4, max_new_tokens=NEW
    )
    inside = tokenizer.batch_decode(chosen, skip_special_tokens=True)
    for ranking, text in zip(outside, inside, strict=True):
        assert text.strip().endswith(str(ranking.text).strip())
        assert ranking.id in ("0", "1")
    tokenizer.chat_template = None
    with pytest.raises(InputError, match="the tokenizer has no chat template"):
        huggingface.generate(model_of("llama"), tokenizer, messages)
    with pytest.raises(InputError, match="expected a text, or messages"):
        huggingface.generate(model_of("llama"), tokenizer, [["a", "b"]])  # type: ignore[arg-type]


def test_without_a_tokenizer_it_is_asked_for() -> None:
    with pytest.raises(InputError, match=r"Give model.generate\(..., tokenizer=tokenizer\)"):
        model_of("bart").generate(
            **inputs_of("bart"), custom_generate=FOLDER, trust_remote_code=True, max_new_tokens=NEW
        )
