"""Forced scoring by Hugging Face models: transformers' own loss, whatever stands beside a text, nothing cut."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch

from discorank import load_metric
from discorank.integrations.generation.prompt_templates import FewShotTemplates
from discorank.integrations.huggingface import GenerationSettings, HuggingFaceGenerator
from discorank.integrations.huggingface.forced_passes import (
    BartPasses,
    CausalPasses,
    EncoderDecoderPasses,
    ForcedReader,
    ForcedSequence,
    HuggingFaceScorer,
    ScoringSettings,
)
from discorank.integrations.scoring.list_prompts import (
    ListPrompts,
    PromptedText,
    ScoredText,
)
from discorank.metrics.errors import InputError
from discorank.metrics.text.prompt_template import Template
from discorank.rerank.lists import CandidateList, read_list, write_list
from discorank.rerank.runs.resumable import Entry

from ..support.tiny_causal import byte_tokenizer, causal_model, write_causal
from ..support.tiny_generators import FAMILIES, TEXTS, model_of, tokenizer_of

every_family = pytest.mark.parametrize("family", FAMILIES)
# of one prompt, and of others; texts of several lengths, an empty one
ASKED = [
    *(PromptedText(f"{TEXTS[0]} ", text) for text in (*TEXTS, "a", "")),
    *(PromptedText(f"{TEXTS[3]} ", text) for text in TEXTS[1:3]),
    PromptedText(f"{TEXTS[2]} ", TEXTS[3], ends=False),
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def scorer(family: str, batch_tokens: int | None = None, **settings: Any) -> HuggingFaceScorer:
    model = deepcopy(model_of(family))
    return HuggingFaceScorer(
        model, tokenizer_of(family), ScoringSettings(**settings), "m", batch_tokens
    )


def values(
    scorer: HuggingFaceScorer, lists: Sequence[Sequence[PromptedText]]
) -> list[list[ScoredText]]:
    answers = []
    for answer in scorer.scored(lists, lambda: None):
        assert isinstance(answer, list)
        assert all(isinstance(value, ScoredText) for value in answer)
        answers.append(answer)
    return answers


def reader(family: str, **settings: Any) -> ForcedReader:
    model = model_of(family)
    given = ScoringSettings(**settings)
    return ForcedReader(model, tokenizer_of(family), model.generation_config, given)


def read(family: str, text: PromptedText, **settings: Any) -> ForcedSequence:
    (sequence,) = reader(family, **settings).sequences([text])
    assert isinstance(sequence, ForcedSequence)
    return sequence


def own_loss(family: str, sequence: ForcedSequence) -> float:
    """Transformers' mean loss over the scored tokens, as their total log-probability."""
    labels = torch.tensor([sequence.tokens])
    labels[:, : sequence.first] = -100
    with torch.no_grad():
        if family == "llama":
            given = {"input_ids": torch.tensor([sequence.tokens]), "labels": labels}
        else:
            given = {
                "input_ids": torch.tensor([sequence.source]),
                "decoder_input_ids": torch.tensor([sequence.tokens[:-1]]),
                "labels": labels[:, 1:],
            }
        loss = model_of(family)(**given).loss
    return -float(loss) * sequence.num_scored


@every_family
def test_a_value_is_the_loss_of_transformers(family: str) -> None:
    (text_values,) = values(scorer(family), [ASKED])
    for text, value in zip(ASKED, text_values, strict=True):
        sequence = read(family, text)
        assert value.tokens == sequence.num_scored > 0
        assert value.logprob == pytest.approx(own_loss(family, sequence), abs=1e-4, rel=1e-5)
    assert len({value.logprob for value in text_values}) == len(text_values)


@every_family
def test_a_value_depends_on_its_text_alone(family: str) -> None:
    (together,) = values(scorer(family), [ASKED])
    alone = values(scorer(family), [[text] for text in ASKED])
    assert [value for (value,) in alone] == together
    (backwards,) = values(scorer(family, batch_tokens=16), [ASKED[::-1]])
    assert backwards == together[::-1]


def test_families_run_by_the_passes_meant_for_them() -> None:
    kinds = [type(scorer(family).passes) for family in FAMILIES]
    assert kinds == [BartPasses, EncoderDecoderPasses, BartPasses, CausalPasses]


@every_family
def test_generated_candidates_get_what_generate_wrote(family: str) -> None:
    """Where tokenising a candidate gives back its tokens."""
    settings = GenerationSettings(
        num_candidates=40, sampling="ancestral", max_new_tokens=8, logprobs=True, temperature=0.5
    )
    generator = HuggingFaceGenerator(model_of(family), tokenizer_of(family), settings)
    prompts = TEXTS[:2]
    (pool,) = generator.outputs([generator.ids_of(prompt)[0] for prompt in prompts])
    reading = ListPrompts(FewShotTemplates(Template("{source}")))
    asked = []
    for i, prompt in enumerate(prompts):
        record = CandidateList(str(i), tuple(generator.candidates(pool[i])), prompt)
        # as it is written and read again
        read_again = read_list(json.loads(json.dumps(written(record))))
        asked.append(reading.read(Entry(read_again, None, i, b""))[0])
    list_values = values(scorer(family), asked)
    num_equal = 0
    for i, prompt in enumerate(prompts):
        for j, (tokens, text, _, _, scores) in enumerate(pool[i]):
            assert asked[i][j].text == text
            assert scores is not None
            sequence = read(family, asked[i][j])
            before = (
                list(generator.ids_of(prompt)[0]) if family == "llama" else [sequence.tokens[0]]
            )
            if list(sequence.tokens) == [*before, *tokens]:
                num_equal += 1
                assert list_values[i][j].logprob == pytest.approx(
                    scores.logprob, abs=1e-5, rel=1e-6
                )
    assert num_equal
    leads = {one.lead for texts in asked for one in texts}
    assert " " in leads if family == "llama" else leads == {""}


def written(record: CandidateList) -> dict[str, Any]:
    """The JSON form of a list, without the log-probabilities."""
    row = write_list(record)
    fields = ({**dict(one.fields), "text": one.text} for one in record.candidates)
    return {**row, "candidates": list(fields)}


def test_blanks_that_generate_left_out_stand_behind_a_prompt_without_any() -> None:
    """A prompt that ends in a blank stays as it is; so does a text that nobody knows more of."""
    candidates = [{"text": "the dog", "lead": " "}, "the dog", {"text": "the dog", "lead": "x"}]
    asked: dict[str, list[str]] = {}
    for prompt in ("{source}", "{source} ", "{source}\n"):
        record = read_list({"id": "a", "source": "s", "candidates": candidates})
        texts = ListPrompts(FewShotTemplates(Template(prompt))).read(Entry(record, None, 1, b""))
        assert isinstance(texts, tuple)
        asked[prompt] = [one.lead for one in texts[0]]
    assert list(asked.values()) == [[" ", "", ""], ["", "", ""], ["", "", ""]]
    joined = PromptedText(TEXTS[0], "the dog", lead=" ")
    in_prompt = PromptedText(f"{TEXTS[0]} ", "the dog")
    assert read("llama", joined) == read("llama", in_prompt)
    assert read("llama", joined) != read("llama", PromptedText(TEXTS[0], "the dog"))
    assert read("t5", joined) == read("t5", PromptedText(TEXTS[0], "the dog"))


def test_a_text_begins_where_it_differs_from_its_prompt() -> None:
    tokenizer = tokenizer_of("llama")
    prompt = f"{TEXTS[0]} "
    sequence = read("llama", PromptedText(prompt, "the dog"), end=False)
    alone = tokenizer(prompt)["input_ids"]
    assert sequence.tokens == tuple(tokenizer(f"{TEXTS[0]} the dog")["input_ids"])
    # the space at the end of the prompt is part of the first word
    assert sequence.tokens[: sequence.first] == tuple(alone[:-1])
    assert tokenizer.decode(sequence.tokens[sequence.first :]).strip() == "the dog"
    with_end = read("llama", PromptedText(prompt, "the dog"))
    assert with_end.tokens == (*sequence.tokens, tokenizer.eos_token_id)
    cut_off = read("llama", PromptedText(prompt, "the dog", ends=False))
    assert cut_off == sequence


def test_behind_no_prompt_stands_what_begins_a_text() -> None:
    sequence = read("llama", PromptedText("", "the dog"))
    assert sequence.first == 1
    assert sequence.tokens[0] == tokenizer_of("llama").bos_token_id
    no_start = deepcopy(tokenizer_of("llama"))
    from tokenizers import processors

    no_start.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", special_tokens=[]
    )
    model = model_of("llama")
    bare = ForcedReader(model, no_start, model.generation_config, ScoringSettings())
    (given,) = bare.sequences([PromptedText("", "the dog")])
    assert given == sequence
    no_start.bos_token = None
    bare = ForcedReader(model, no_start, model.generation_config, ScoringSettings())
    (error,) = bare.sequences([PromptedText("", "the dog")])
    assert "no beginning-of-text token. Give a prompt" in str(error)


@every_family
@pytest.mark.parametrize("token", ["</s>", "<s>", "<pad>", "ro_RO"])
def test_control_tokens_written_in_a_text_are_words(family: str, token: str) -> None:
    """As `lm` has them; in a prompt they are what they are."""
    prompt, number = f"{TEXTS[0]} ", tokenizer_of(family).convert_tokens_to_ids(token)
    ends = [tokenizer_of(family).eos_token_id]
    for text in (f"the dog {token} a man", f"a man{token}", token):
        sequence = read(family, PromptedText(prompt, text))
        scored = list(sequence.tokens[sequence.first :])
        assert scored[-1:] == ends
        assert number not in scored[:-1]
        broken = text.replace(token, f"{token[0]} {token[1:]}")
        assert sequence == read(family, PromptedText(prompt, broken))
    ((hostile, words),) = values(
        scorer(family), [[PromptedText(prompt, f"a man{token}"), PromptedText(prompt, "a man")]]
    )
    assert hostile.tokens > words.tokens
    prompted = read(family, PromptedText(f"a car {token} ", "a man"))
    assert number in (*prompted.source, *prompted.tokens[: prompted.first])


@every_family
def test_an_end_text_may_be_a_control_token(family: str) -> None:
    text = PromptedText(f"{TEXTS[0]} ", "the dog")
    named = text._replace(ends=False, end_text="</s>")
    assert read(family, named) == read(family, text)
    both = named._replace(text="the dog</s>")
    assert read(family, both) == read(family, text._replace(text="the dog< /s>"))
    with_words = text._replace(ends=False, end_text=" sees")
    assert read(family, with_words) == read(family, text._replace(text="the dog sees", ends=False))


def test_a_sequence_begins_as_generate_reads_it_and_not_as_lm_does(tmp_path: Path) -> None:
    """Of a tokenizer that has a beginning-of-text token and does not add it, as that of GPT-2."""
    folder, tokenizer = write_causal(tmp_path, "llama"), byte_tokenizer()
    model = causal_model("llama", len(tokenizer))
    prompt, text = "a man reads = ", "the dog"
    made = ForcedReader(model, tokenizer, model.generation_config, ScoringSettings())
    (sequence,) = made.sequences([PromptedText(prompt, text)])
    assert isinstance(sequence, ForcedSequence)
    settings = GenerationSettings(max_new_tokens=8)
    read_by_generate = HuggingFaceGenerator(model, tokenizer, settings).ids_of("a man reads =")[0]
    assert list(sequence.tokens[: sequence.first]) == read_by_generate
    assert tokenizer.bos_token_id not in sequence.tokens

    def by_lm(source: str | None = None, **more: Any) -> float:
        metric = load_metric("lm", model=str(folder), normalize="sum", end="token", **more)
        return float(metric.pairwise([text], [], source)[0, 0])

    asked = [PromptedText(before, text) for before in (prompt, f"<s>{prompt}", "")]
    (text_values,) = values(HuggingFaceScorer(model, tokenizer), [asked])
    bare, begun, alone = (value.logprob for value in text_values)
    by_source: dict[str, Any] = {"given": "source", "prompt": "{source} = "}
    assert begun == pytest.approx(by_lm("a man reads", **by_source), rel=1e-5)
    assert abs(bare - begun) > 0.01
    # nothing else stands before it
    assert alone == pytest.approx(by_lm(), rel=1e-5)


def test_the_language_is_given_and_not_scored() -> None:
    forced = tokenizer_of("mbart").convert_tokens_to_ids("ro_RO")
    sequence = read("mbart", PromptedText(TEXTS[0], "a dog"))
    assert sequence.tokens[:2] == (1, forced)
    assert sequence.first == 2
    without = read("bart", PromptedText(TEXTS[0], "a dog"))
    assert without.tokens[0] == sequence.tokens[0]
    assert without.tokens[1:] == sequence.tokens[2:]
    (forced_value,), (value,) = values(
        scorer("mbart"), [[PromptedText(TEXTS[0], "a dog")], [PromptedText(TEXTS[0], "")]]
    )
    assert forced_value.tokens == sequence.num_scored
    assert value.tokens == 1


@every_family
def test_ends_count_where_they_are_wanted(family: str) -> None:
    text = PromptedText(f"{TEXTS[0]} ", TEXTS[3])
    ((whole,),) = values(scorer(family), [[text]])
    ((without,),) = values(scorer(family, end=False), [[text]])
    ((unfinished,),) = values(scorer(family), [[text._replace(ends=False)]])
    assert without == unfinished
    assert whole.tokens == without.tokens + 1
    assert whole.logprob < without.logprob
    ((nothing,),) = values(scorer(family, end=False), [[text._replace(text="")]])
    assert nothing == ScoredText(0.0, 0)


@every_family
def test_what_is_too_long_is_an_error_of_its_own(family: str) -> None:
    long = "the old house " * 40
    texts = [PromptedText("a ", "the dog"), PromptedText("a ", long), PromptedText(long, "a")]
    (answers,) = scorer(family).scored([texts], lambda: None)
    assert not isinstance(answers, Exception)
    assert isinstance(answers[0], ScoredText)
    if family == "t5":
        # its positions have no end
        assert all(isinstance(answer, ScoredText) for answer in answers)
        return
    for answer in answers[1:]:
        assert isinstance(answer, InputError)
        assert "tokens, the model has 64 positions" in str(answer)


def test_the_longest_text_that_fits_is_scored() -> None:
    tokenizer = tokenizer_of("llama")
    words = "a " * 80
    ids = tokenizer(f"a {words}")["input_ids"]
    text = tokenizer.decode(ids[2:65])  # 64 tokens are read, the last one is scored
    sequence = read("llama", PromptedText("a ", text), end=False)
    assert len(sequence.tokens) == 65
    ((value,),) = values(scorer("llama", end=False), [[PromptedText("a ", text)]])
    assert math.isfinite(value.logprob)
    (error,) = reader("llama").sequences([PromptedText("a ", text)])
    assert isinstance(error, InputError)


def test_a_chat_template_stands_around_the_prompt() -> None:
    tokenizer = deepcopy(tokenizer_of("llama"))
    tokenizer.chat_template = (
        "<s>{% for m in messages %}{{ m.content }} two{% endfor %}"
        "{% if add_generation_prompt %} {% endif %}"
    )
    model = deepcopy(model_of("llama"))
    chat = HuggingFaceScorer(model, tokenizer, ScoringSettings(chat=True))
    ((chat_value,),) = values(chat, [[PromptedText("a red car", "the dog")]])
    ((plain,),) = values(scorer("llama"), [[PromptedText("a red car two ", "the dog")]])
    assert chat_value == plain
    with pytest.raises(InputError, match="no chat template"):
        scorer("llama", chat=True)
    with pytest.raises(InputError, match="the tokenizer has no languages"):
        scorer("llama", target_lang="de_DE")


def test_lists_are_read_ahead_up_to_a_batch_and_not_past_an_error() -> None:
    taken: list[int] = []
    works: list[int] = []

    def lists() -> Iterator[Any]:
        for number in range(6):
            taken.append(number)
            yield InputError("no list") if number == 3 else [PromptedText("a ", f"dog {number}")]

    answers = scorer("llama", batch_tokens=10).scored(lists(), lambda: works.append(len(taken)))
    seen = []
    for answer in answers:
        seen.append((isinstance(answer, InputError), len(taken)))
    assert [is_error for is_error, _ in seen] == [False, False, False, True, False, False]
    # the error ends its block
    assert seen[3][1] == 4
    assert works == sorted(set(works))
