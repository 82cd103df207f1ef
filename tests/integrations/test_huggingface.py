"""Candidates from Hugging Face models: drawn as said, independent of batches, equal picks by every way in."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from discorank.integrations import huggingface
from discorank.integrations.generation.generator import Prompt
from discorank.integrations.huggingface import GenerationSettings, HuggingFaceGenerator
from discorank.integrations.huggingface.sampling import drawn, uniforms
from discorank.integrations.huggingface.token_generator import TokenGenerator
from discorank.metrics.errors import InputError
from discorank.rerank.choice import Ranking
from discorank.rerank.lists import CandidateList
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.reranker import Reranker

from ..support.examples import examples
from ..support.tiny_generators import FAMILIES, TEXTS, model_of, tokenizer_of

NEW = 10
every_family = pytest.mark.parametrize("family", FAMILIES)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def generate(family: str, texts: Any = TEXTS, **settings: Any) -> list[Ranking]:
    given = {"num_candidates": 6, "seed": 3, "max_new_tokens": NEW, **settings}
    return huggingface.generate(model_of(family), tokenizer_of(family), texts, **given)


def candidates(rankings: list[Ranking]) -> list[list[str]]:
    return [[str(candidate.text) for candidate in ranking.candidates] for ranking in rankings]


def generator(family: str, **settings: Any) -> HuggingFaceGenerator:
    given = {"num_candidates": 6, "seed": 3, "max_new_tokens": NEW, **settings}
    return HuggingFaceGenerator(model_of(family), tokenizer_of(family), GenerationSettings(**given))


def lists(family: str, **settings: Any) -> list[CandidateList]:
    made = list(
        generator(family, **settings).generate(Prompt(str(i), text) for i, text in enumerate(TEXTS))
    )
    assert all(isinstance(one, CandidateList) for one in made)
    return [one for one in made if isinstance(one, CandidateList)]


def padded_inputs(family: str, texts: Any = TEXTS) -> Any:
    side = "left" if family == "llama" else "right"
    given = tokenizer_of(family)(list(texts), return_tensors="pt", padding=True, padding_side=side)
    return {"input_ids": given["input_ids"], "attention_mask": given["attention_mask"]}


def stripped(family: str, sequences: Any, prompt_tokens: int) -> list[str]:
    rows = sequences[:, prompt_tokens if family == "llama" else 0 :]
    return [
        text.strip() for text in tokenizer_of(family).batch_decode(rows, skip_special_tokens=True)
    ]


@pytest.mark.parametrize(
    ("family", "sampling"),
    [*((family, "epsilon") for family in FAMILIES), ("mbart", "beam"), ("llama", "beam")],
)
def test_every_way_in_picks_the_same(family: str, sampling: str) -> None:
    settings: dict[str, Any] = {"num_candidates": 6, "seed": 3, "sampling": sampling}
    wrapped = [str(ranking.text) for ranking in generate(family, sampling=sampling)]
    model, tokenizer, inputs = model_of(family), tokenizer_of(family), padded_inputs(family)
    length = inputs["input_ids"].shape[1]
    inside = huggingface.custom_generate(tokenizer, "chrf", **settings)
    assert (
        stripped(
            family, model.generate(**inputs, custom_generate=inside, max_new_tokens=NEW), length
        )
        == wrapped
    )
    whole = model.generate(
        **inputs,
        custom_generate=inside,
        max_new_tokens=NEW,
        num_beams=3,
        return_dict_in_generate=True,
    )
    assert stripped(family, whole.sequences, length) == wrapped
    assert sampling == "beam" or len({*wrapped}) > 1


@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_pipeline_picks_the_same(batch_size: int) -> None:
    from transformers import pipeline

    pipe = pipeline("text-generation", model=model_of("llama"), tokenizer=tokenizer_of("llama"))
    inside = huggingface.custom_generate(tokenizer_of("llama"), "chrf", num_candidates=6, seed=3)
    given = {
        "custom_generate": inside,
        "max_new_tokens": NEW,
        "return_full_text": False,
        "batch_size": batch_size,
    }
    texts = [answer[0]["generated_text"].strip() for answer in pipe(list(TEXTS), **given)]
    assert texts == [str(ranking.text) for ranking in generate("llama")]


@every_family
def test_batches_and_numbers_of_candidates_change_nothing(family: str) -> None:

    def made(texts: Any = TEXTS[:2], **settings: Any) -> list[list[str]]:
        given = {"num_candidates": 3, "sampling": "ancestral", **settings}
        return candidates(generate(family, texts, **given))

    expected = made()
    for at_once in (1, 4):
        assert made(sequences_at_once=at_once) == expected
    assert made(TEXTS[1::-1]) == expected[::-1]
    assert made(num_candidates=2) == [some[:2] for some in expected]
    assert made(seed=4) != expected


@every_family
def test_nothing_of_the_callers_is_touched(family: str) -> None:
    model = model_of(family)
    model.train()
    config, values = model.generation_config, model.generation_config.to_dict()
    torch.manual_seed(7)
    state = torch.get_rng_state()
    try:
        dropped = candidates(generate(family))
        assert model.training
    finally:
        model.train(False)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.generation_config is config
    assert config.to_dict() == values
    assert dropped == candidates(generate(family))


def probabilities(family: str, text: str, tokens: list[int]) -> Any:
    """The model's own distribution before every token, one plain forward pass per step, [tokens, vocabulary]."""
    model = model_of(family)
    ids = tokenizer_of(family)(text)["input_ids"]
    rows = []
    with torch.inference_mode():
        for end in range(len(tokens)):
            if family == "llama":
                logits = model(input_ids=torch.tensor([[*ids, *tokens[:end]]])).logits
            else:
                read = torch.tensor(
                    [[model.generation_config.decoder_start_token_id, *tokens[:end]]]
                )
                logits = model(input_ids=torch.tensor([ids]), decoder_input_ids=read).logits
            rows.append(logits[0, -1].double().softmax(0))
    return torch.stack(rows)


@every_family
@pytest.mark.parametrize("sampling", ["ancestral", "beam"])
def test_log_probabilities_are_those_of_the_model_alone(family: str, sampling: str) -> None:
    settings: dict[str, Any] = {"sampling": sampling, "logprobs": True, "num_candidates": 2}
    settings |= {} if sampling == "beam" else {"temperature": 0.5}
    made = generator(family, **settings)
    (pool,) = made.outputs([made.ids_of(text)[0] for text in TEXTS[1:3]])
    forced = made.token_generator.config.forced_bos_token_id
    for text, outputs in zip(TEXTS[1:3], pool, strict=True):
        for tokens, _, _, _, scores in outputs:
            own = probabilities(family, text, tokens)[
                torch.arange(len(tokens)), torch.tensor(tokens)
            ]
            counted = own[1:] if forced is not None else own
            assert scores is not None
            assert scores.logprob == pytest.approx(float(counted.log().sum()), abs=1e-4)


@every_family
def test_beams_are_those_of_transformers(family: str) -> None:
    beams = candidates(generate(family, sampling="beam", num_candidates=4))
    given = {"num_beams": 4, "num_return_sequences": 4, "max_new_tokens": NEW, "do_sample": False}
    for text, some in zip(TEXTS, beams, strict=True):
        inputs = padded_inputs(family, [text])
        sequences = model_of(family).generate(**inputs, **given)
        assert stripped(family, sequences, inputs["input_ids"].shape[1]) == some


@pytest.mark.parametrize(("sampling", "cutoff"), [("epsilon", 0.03), ("nucleus", 0.5)])
def test_improbable_tokens_are_cut_off(sampling: str, cutoff: float) -> None:
    made = generator("llama", sampling=sampling, cutoff=cutoff, num_candidates=20, temperature=0.9)
    (pool,) = made.outputs([made.ids_of(TEXTS[0])[0]])
    kept = 0
    for tokens, *_ in pool[0]:
        p = (probabilities("llama", TEXTS[0], tokens).log() / 0.9).softmax(1)
        own = p[torch.arange(len(tokens)), torch.tensor(tokens)]
        above = (p * (p > own[:, None])).sum(1)  # what more probable tokens hold
        least = (
            p.max(1).values.clamp(max=cutoff) if sampling == "epsilon" else torch.zeros(len(tokens))
        )
        assert bool((own >= least - 1e-6).all())
        assert sampling == "epsilon" or bool((above < cutoff + 1e-6).all())
        kept += len(tokens)
    assert kept > 20


def test_samples_follow_the_distribution() -> None:
    made = generator(
        "bart", sampling="ancestral", num_candidates=4000, max_new_tokens=1, sequences_at_once=4000
    )
    made.token_generator.config.forced_eos_token_id = None
    (pool,) = made.outputs([made.ids_of(TEXTS[0])[0]])
    counts = np.bincount([one.tokens[0] for one in pool[0]], minlength=len(tokenizer_of("bart")))
    expected = probabilities("bart", TEXTS[0], [0])[0].numpy()
    assert np.abs(counts / 4000 - expected).max() < 4 * math.sqrt(0.25 / 4000)
    assert (counts > 0).sum() > 10


weights = st.lists(st.floats(-30, 30) | st.just(-math.inf), min_size=2, max_size=20)


@examples(15)
@given(st.lists(weights, min_size=1, max_size=4), st.floats(0, 1, exclude_max=True))
def test_the_drawn_token_is_where_the_cumulated_probability_passes(
    rows: list[list[float]], u: float
) -> None:
    width = max(map(len, rows))
    logits = np.array([row + [-math.inf] * (width - len(row)) for row in rows], np.float32)
    logits[:, 0] = np.where(np.isinf(logits).all(axis=1), 0.0, logits[:, 0])
    tokens = drawn(
        torch.from_numpy(logits), torch.full((len(rows),), u, dtype=torch.float64)
    ).tolist()
    for row, token in zip(logits.astype(np.float64), tokens, strict=True):
        mass = np.exp(row - row.max())
        mass /= mass.sum()
        assert mass[token] > 0
        assert mass[:token].sum() <= u + 1e-6
        assert mass[: token + 1].sum() >= u - 1e-6


def test_chance_depends_on_input_and_number_alone() -> None:
    one = uniforms(3, "candidates", [4, 5], 7, 20)
    assert np.array_equal(one, uniforms(3, "candidates", [4, 5], 7, 50)[:20])
    others = [
        uniforms(3, "candidates", [4, 5], 8, 20),
        uniforms(3, "candidates", [45], 7, 20),
        uniforms(4, "candidates", [4, 5], 7, 20),
        uniforms(3, "pseudo_references", [4, 5], 7, 20),
    ]
    assert all(np.abs(one - other).max() > 0.1 for other in others)
    assert bool(((one >= 0) & (one < 1)).all())


@every_family
def test_pools_are_apart(family: str) -> None:
    alone = lists(family)
    both = lists(family, num_references=4, reference_sampling="ancestral")
    for one, other in zip(alone, both, strict=True):
        assert other.candidates == one.candidates
        assert not one.pseudo_references
        assert len(other.pseudo_references) == 4
        assert {c.text for c in other.pseudo_references} != {c.text for c in other.candidates[:4]}
    decided = [ranking.text for ranking in MBRDecoder(utility="chrf").decode(both)]
    assert decided == [
        ranking.text
        for ranking in generate(family, num_references=4, reference_sampling="ancestral")
    ]


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, False),
        ({"utility": "chrf + bleu"}, False),
        ({"utility": Reranker({"length": 1.0})}, False),
        ({"logprobs": True}, True),
        ({"weights": "logprob"}, True),
        ({"utility": Reranker({"logprob": 1.0, "length": 0.1})}, True),
        ({"utility": Reranker({"logprob/length": 1.0})}, True),
        ({"utility": MBRDecoder(utility="chrf", weights="logprob")}, True),
    ],
)
def test_log_probabilities_only_where_asked_for(
    settings: dict[str, Any], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    plain = TokenGenerator.scores

    def spy(*given: Any) -> Any:
        asked.append(1)
        return plain(*given)

    monkeypatch.setattr(TokenGenerator, "scores", spy)
    rankings = generate("bart", **settings)
    assert bool(asked) == wanted
    assert all(
        (c.logprob is not None) == wanted for ranking in rankings for c in ranking.candidates
    )


def test_a_reranker_by_log_probability_takes_the_most_probable() -> None:
    for ranking in generate("t5", utility=Reranker({"logprob": 1.0}), sampling="ancestral"):
        logprobs = [c.logprob for c in ranking.candidates]
        assert ranking.candidates[ranking.index].logprob == max(
            x for x in logprobs if x is not None
        )


def test_what_became_too_long_says_so() -> None:
    (ranking,) = generate("llama", TEXTS[:1], num_candidates=12, max_new_tokens=5)
    made = generator("llama", num_candidates=12, max_new_tokens=5)
    (pool,) = made.outputs([made.ids_of(TEXTS[0])[0]])
    ended = [one.tokens[-1] == 1 for one in pool[0]]
    assert [c.fields.get("unfinished", False) for c in ranking.candidates] == [
        not one for one in ended
    ]
    assert len({*ended}) == 2


def test_inputs_are_cut_only_if_told_and_say_so() -> None:
    long = " ".join(TEXTS * 5)
    with pytest.raises(InputError, match=r"text '0': text: .* tokens, the model has 64 positions"):
        generate("bart", [long])
    made = generator("bart", max_input_tokens=20)
    (record,) = made.generate([Prompt("a", long)])
    assert isinstance(record, CandidateList)
    whole = tokenizer_of("bart")(long)["input_ids"]
    assert record.extra == {"truncated_input_tokens": len(whole) - 20}
    assert made.ids_of(long)[0] == [*whole[:19], 1]


def test_a_chat_is_put_into_its_template() -> None:
    tokenizer = tokenizer_of("llama")
    template = (
        "<s>{% for m in messages %}{{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %} the man{% endif %}"
    )
    made = generator("llama")
    tokenizer.chat_template = template
    try:
        chat = generator("llama", chat=True)
        assert chat.ids_of(TEXTS[0])[0] == made.ids_of(TEXTS[0] + " the man")[0]
    finally:
        tokenizer.chat_template = None


def test_documents_are_chosen_in_context() -> None:
    from ..support.contextual import Echo

    prompts = [Prompt(str(i), text, text, "d", i) for i, text in enumerate(TEXTS)]
    rankings = generate("bart", prompts, utility=Echo())
    made = generator("bart").generate(prompts)
    expected = [ranking.index for ranking in MBRDecoder(utility=Echo()).decode(made)]  # type: ignore[arg-type]
    assert [ranking.index for ranking in rankings] == expected
    with pytest.raises(InputError, match="texts without document do not have"):
        generate("bart", utility=Echo())
    with pytest.raises(InputError, match=r"which model\.generate does not know"):
        huggingface.custom_generate(tokenizer_of("bart"), Echo())


class Untouched:
    """A model that must not be run."""

    def __init__(self, family: str) -> None:
        self.plain = model_of(family)

    def __getattr__(self, name: str) -> Any:
        if name in ("generate", "get_encoder", "forward"):
            raise AssertionError("generation started")
        return getattr(self.plain, name)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("bart", {"num_candidates": 0}, "num_candidates"),
    ("bart", {"sampling": "epsilon", "cutoff": 1.5}, "cutoff = 1.5"),
    ("bart", {"sampling": "nuclear"}, "sampling = 'nuclear'"),
    ("bart", {"sampling": "ancestral", "cutoff": 0.1}, "cutoff: ancestral has no cutoff"),
    ("bart", {"sampling": "beam", "temperature": 0.5}, "a beam has no temperature"),
    ("bart", {"temperature": 0.0}, "temperature"),
    ("bart", {"reference_sampling": "beam"}, "num_references: no pseudo-references are generated"),
    ("bart", {"top_k": 3}, "top_k: is a setting of shortlists, not of sampling"),
    ("bart", {"max_new_tokens": 64}, "max_new_tokens: found 64, the model has 64 positions"),
    (
        "llama",
        {"max_new_tokens": 60},
        "text '0': text: .* tokens and 60 new ones, the model has 64 positions",
    ),
    ("bart", {"chat": True}, "no chat template"),
    ("bart", {"target_lang": "ro_RO"}, "target_lang: the tokenizer has no languages"),
    ("bart", {"weights": "log"}, "weights: found 'log'"),
    ("bart", {"utility": "chfr"}, "Did you mean 'chrf'"),
    ("bart", {"texts": ["a man", ""]}, "text '1': text: there is nothing to read"),
    ("bart", {"top_p": 0.9}, "unknown setting 'top_p'"),
    ("bart", {"texts": "a man"}, "Give a list of texts"),
    ("bart", {"texts": [["a", "man"]]}, r"texts\[0\]"),
    (
        "bart",
        {"utility": MBRDecoder(utility="chrf"), "weights": "uniform"},
        "stands beside a whole decoder",
    ),
]


@pytest.mark.parametrize(("family", "settings", "message"), REFUSED)
def test_what_cannot_work_is_refused_before_generation(
    family: str, settings: dict[str, Any], message: str
) -> None:
    texts = settings.get("texts", TEXTS)
    rest = {
        "max_new_tokens": NEW,
        **{key: value for key, value in settings.items() if key != "texts"},
    }
    with pytest.raises(InputError, match=message):
        huggingface.generate(Untouched(family), tokenizer_of(family), texts, **rest)


def test_models_and_tokenizers_that_do_not_fit_are_refused() -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import BertConfig, BertModel

    size: dict[str, Any] = {
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "hidden_size": 8,
        "intermediate_size": 8,
    }
    with pytest.raises(InputError, match="a BertModel generates no text"):
        huggingface.generate(
            BertModel(BertConfig(vocab_size=90, **size)), tokenizer_of("bart"), TEXTS
        )
    with pytest.raises(InputError, match="expected a tokenizer of transformers"):
        huggingface.generate(model_of("bart"), "tokenizer", TEXTS)
    tokenizer = tokenizer_of("bart")
    bigger = type(tokenizer)(
        tokenizer_object=tokenizer.backend_tokenizer, unk_token="<unk>", eos_token="</s>"
    )
    bigger.add_tokens([f"<{i}>" for i in range(10)])
    with pytest.raises(
        InputError, match=r"the tokenizer has \d+ tokens, the model's vocabulary \d+"
    ):
        huggingface.generate(model_of("bart"), bigger, TEXTS)
    empty = Tokenizer(WordLevel({"<unk>": 0, "</s>": 1}, unk_token="<unk>"))
    empty.pre_tokenizer = Whitespace()
    knows_nothing = type(tokenizer)(tokenizer_object=empty, unk_token="<unk>", eos_token="</s>")
    with pytest.raises(InputError, match="the tokenizer knows none of the words"):
        huggingface.generate(Untouched("bart"), knows_nothing, TEXTS, max_new_tokens=3)
    with pytest.raises(InputError, match="the tokenizer ends the prompt"):
        huggingface.generate(model_of("llama"), tokenizer, TEXTS, max_new_tokens=3)
    inside = huggingface.custom_generate(tokenizer, num_candidates=3)
    with pytest.raises(InputError, match="num_return_sequences: is to be set in custom_generate"):
        model_of("bart").generate(
            **padded_inputs("bart"),
            custom_generate=inside,
            num_return_sequences=2,
            do_sample=True,
            max_new_tokens=3,
        )


def test_many_languages() -> None:
    class Polyglot:
        """A tokenizer with languages, as those of mBART-50 and NLLB are."""

        src_lang = "en_XX"

        def __init__(self) -> None:
            self.plain = tokenizer_of("mbart")
            self.lang_code_to_id = {
                name: self.plain.convert_tokens_to_ids(name) for name in ("en_XX", "ro_RO")
            }

        def __call__(self, text: str, **options: Any) -> Any:
            ids = self.plain(text, **options)["input_ids"]
            return {"input_ids": [self.plain.convert_tokens_to_ids(self.src_lang), *ids]}

        def __len__(self) -> int:
            return len(self.plain)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.plain, name)

    tokenizer: Any = Polyglot()
    settings = GenerationSettings(max_new_tokens=NEW, num_candidates=3)
    plain = model_of("bart")  # which forces no first token
    with pytest.raises(InputError, match="target_lang: the language to write in is not set"):
        HuggingFaceGenerator(plain, tokenizer, settings)
    with pytest.raises(
        InputError,
        match=r"target_lang: the tokenizer does not know the language 'xx_XX'\. Such as en_XX",
    ):
        HuggingFaceGenerator(plain, tokenizer, replace(settings, target_lang="xx_XX"))
    made = HuggingFaceGenerator(
        plain, tokenizer, replace(settings, source_lang="ro_RO", target_lang="en_XX")
    )
    ids = made.ids_of(TEXTS[0])[0]
    assert ids[0] == tokenizer.lang_code_to_id["ro_RO"]
    assert tokenizer.src_lang == "en_XX"
    (pool,) = made.outputs([ids])
    assert {one.tokens[0] for one in pool[0]} == {tokenizer.lang_code_to_id["en_XX"]}


def test_processors_and_constraints_of_the_call_count() -> None:
    from transformers import LogitsProcessor, LogitsProcessorList

    class Never(LogitsProcessor):  # type: ignore[misc, unused-ignore]
        """Forbids a token."""

        def __init__(self, token: int) -> None:
            self.token = token

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            scores[:, self.token] = -math.inf
            return scores

    model, inside = (
        model_of("t5"),
        huggingface.custom_generate(tokenizer_of("t5"), num_candidates=6, seed=3),
    )
    given = {**padded_inputs("t5"), "custom_generate": inside, "max_new_tokens": NEW}
    free = model.generate(**given)
    token = int(free[0, 1])
    without = model.generate(**given, logits_processor=LogitsProcessorList([Never(token)]))
    assert token in free
    assert token not in without
    pairs = [
        list(pairwise(row)) for row in model.generate(**given, no_repeat_ngram_size=2).tolist()
    ]
    assert all(
        len({*row}) == len(row)
        for row in ([pair for pair in some if 0 not in pair] for some in pairs)
    )


WITHOUT_EFFECT = {
    "penalty_alpha": 0.6,
    "dola_layers": "high",
    "num_beam_groups": 2,
    "diversity_penalty": 0.5,
    "assistant_early_exit": 1,
    "token_healing": True,
    "use_mtp": True,
    "stop_strings": [],
    "force_words_ids": [],
}


@pytest.mark.parametrize("sampling", ["epsilon", "beam"])
def test_other_ways_to_decode_have_no_effect_or_are_refused(sampling: Any) -> None:
    model, tokenizer = model_of("bart"), tokenizer_of("bart")
    settings = GenerationSettings(max_new_tokens=NEW, num_candidates=2, sampling=sampling)
    prompts = [Prompt("0", TEXTS[0])]
    plain = list(HuggingFaceGenerator(model, tokenizer, settings).generate(prompts))
    config = deepcopy(model.generation_config)
    for name, value in WITHOUT_EFFECT.items():
        setattr(config, name, value)
    configured = HuggingFaceGenerator(model, tokenizer, settings, config=config)
    assert list(configured.generate(prompts)) == plain
    refused = {"stop_strings": ["dog"], "force_words_ids": [[5]], "constraints": ["any"]}
    for name, value in refused.items():
        config = deepcopy(model.generation_config)
        setattr(config, name, value)
        with pytest.raises(InputError, match=rf"generation_config\.{name}: cannot be followed"):
            HuggingFaceGenerator(Untouched("bart"), tokenizer, settings, config=config)


@pytest.mark.parametrize("sampling", ["epsilon", "beam"])
@pytest.mark.parametrize("family", ["t5", "llama"])
def test_stopping_criteria_of_the_call_count(family: str, sampling: str) -> None:
    from transformers import StoppingCriteria, StoppingCriteriaList

    class AtThirds(StoppingCriteria):  # type: ignore[misc, unused-ignore]
        """Stops behind a token whose id is a multiple of three."""

        def __call__(self, input_ids: Any, scores: Any, **more: Any) -> Any:
            return input_ids[:, -1] % 3 == 0

    inside = huggingface.custom_generate(
        tokenizer_of(family), num_candidates=6, seed=3, sampling=sampling
    )
    inputs = padded_inputs(family)
    given = {**inputs, "custom_generate": inside, "max_new_tokens": NEW}
    start = inputs["input_ids"].shape[1] if family == "llama" else 1

    def early(sequences: Any) -> list[bool]:
        """Whether a row goes on behind a multiple of three."""
        return [
            any(a % 3 == 0 and b != 0 for a, b in pairwise(row[start:]))
            for row in sequences.tolist()
        ]

    assert any(early(model_of(family).generate(**given)))
    stopped = model_of(family).generate(
        **given, stopping_criteria=StoppingCriteriaList([AtThirds()])
    )
    assert not any(early(stopped))


def test_a_limit_of_time_is_refused() -> None:
    inside = huggingface.custom_generate(tokenizer_of("bart"), num_candidates=3)
    given = {**padded_inputs("bart"), "custom_generate": inside, "max_new_tokens": 3}
    with pytest.raises(InputError, match="max_time: candidates are not cut by time"):
        model_of("bart").generate(**given, max_time=60.0)


def test_stop_strings_are_those_of_the_settings() -> None:
    tokenizer = tokenizer_of("llama")
    inside = huggingface.custom_generate(tokenizer, num_candidates=4, seed=3)
    given = {**padded_inputs("llama"), "max_new_tokens": NEW}
    start = given["input_ids"].shape[1]
    plain = model_of("llama").generate(**given, custom_generate=inside)
    first = next(token for token in plain[0][start:].tolist() if token > 2)
    stop = tokenizer.decode([first])
    set_so = huggingface.custom_generate(tokenizer, num_candidates=4, seed=3, stop=(stop,))
    wanted = model_of("llama").generate(**given, custom_generate=set_so)
    assert wanted.tolist() != plain.tolist()
    for form in (stop, [stop]):
        stopped = model_of("llama").generate(
            **given, custom_generate=inside, stop_strings=form, tokenizer=tokenizer
        )
        assert stopped.tolist() == wanted.tolist()


@pytest.mark.parametrize("name", ["output_scores", "output_logits", "output_attentions"])
def test_outputs_of_steps_are_refused_with_the_reason(name: str) -> None:
    inside = huggingface.custom_generate(tokenizer_of("llama"), num_candidates=2)
    given = {**padded_inputs("llama"), "custom_generate": inside, "max_new_tokens": 3}
    with pytest.raises(InputError, match=f"{name}: is not there for what is chosen"):
        model_of("llama").generate(**given, return_dict_in_generate=True, **{name: True})


def test_a_streamer_gets_the_prompt_and_what_is_chosen() -> None:
    class Heard:
        """Keeps what it is given."""

        def __init__(self) -> None:
            self.pieces: list[Any] = []
            self.ends = 0

        def put(self, value: Any) -> None:
            self.pieces.append(value)

        def end(self) -> None:
            self.ends += 1

    tokenizer, heard = tokenizer_of("llama"), Heard()
    inside = huggingface.custom_generate(tokenizer, num_candidates=4, seed=3)
    inputs = tokenizer(TEXTS[0], return_tensors="pt")
    inputs.pop("token_type_ids", None)
    (row,) = model_of("llama").generate(
        **inputs, custom_generate=inside, max_new_tokens=NEW, streamer=heard
    )
    prompt, answer = heard.pieces
    assert prompt.tolist() == inputs["input_ids"].tolist()
    assert [*prompt[0].tolist(), *answer.tolist()] == row.tolist()
    assert heard.ends == 1
