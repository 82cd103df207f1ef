"""A prompt that is read once for all its samples gives what reading it for each of them gives."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from discorank.integrations.huggingface.model_loading import ModelPool
from discorank.integrations.huggingface.token_generator import TokenGenerator

SMALL: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
SMALL |= {"num_key_value_heads": 1, "intermediate_size": 32, "head_dim": 8}
PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15, 16], [17, 18]]
POOL = ModelPool("candidates", 5, "ancestral", None, 1.0)


def llama() -> Any:
    """Rotary places."""
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL))


def gemma() -> Any:
    """A window of four tokens, which the longest prompt passes."""
    config = transformers.Gemma3TextConfig(**SMALL, sliding_window=4)
    return transformers.Gemma3ForCausalLM(config)


def gpt2() -> Any:
    """Learned places."""
    config = transformers.GPT2Config(vocab_size=61, n_embd=16, n_layer=2, n_head=2, n_positions=64)
    return transformers.GPT2LMHeadModel(config)


def wrapped() -> Any:
    """A model whose forward does not say what it takes, as those of adapters."""
    model = llama()
    plain = model.forward
    model.forward = lambda **arguments: plain(**arguments)
    return model


def mamba() -> Any:
    """States that are neither keys nor values."""
    config = transformers.MambaConfig(
        vocab_size=61, hidden_size=16, num_hidden_layers=2, state_size=4
    )
    return transformers.MambaForCausalLM(config)


class Counted:
    """Counts the tokens that a model reads."""

    def __init__(self, model: Any) -> None:
        self.num_tokens = 0
        model.get_input_embeddings().register_forward_hook(self.count)

    def count(self, module: Any, arguments: Any, result: Any) -> None:
        """One call of the embeddings."""
        self.num_tokens += arguments[0].numel()


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums in one order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def generator(model: Any, shares: bool) -> TokenGenerator:
    """The generator of a model, which reads a prompt once or for every sample."""
    make_config: Any = transformers.GenerationConfig
    config = make_config(eos_token_id=2, pad_token_id=0, use_cache=True)
    made = TokenGenerator(model, config, max_new_tokens=7, padding=0, sequences_at_once=64)
    if not shares:
        made._prompt_states = lambda prompts, rows: None  # type: ignore[method-assign]
    return made


@pytest.mark.parametrize(
    ("make", "is_shared"),
    [(llama, True), (gemma, True), (gpt2, True), (wrapped, False), (mamba, False)],
)
def test_shared_prompts_change_nothing(make: Callable[[], Any], is_shared: bool) -> None:
    torch.manual_seed(3)
    model = make().double().eval()
    counted = Counted(model)
    results, tokens_read = [], []
    for shares in (True, False):
        counted.num_tokens = 0
        own = generator(model, shares)
        outputs = own.outputs(PROMPTS, POOL, seed=1)
        results.append((outputs, own.scores(PROMPTS, outputs, top=3)))
        tokens_read.append(counted.num_tokens)
    (shared, scores), (plain, plain_scores) = results
    assert shared == plain
    assert len({tuple(output) for output in plain[1]}) > 1
    for own_list, expected_list in zip(scores, plain_scores, strict=True):
        for one, other in zip(own_list, expected_list, strict=True):
            np.testing.assert_allclose(one.logprob, other.logprob, rtol=1e-9)
            assert one.distributions is not None
            assert other.distributions is not None
            certainty, expected = one.distributions.certainty, other.distributions.certainty
            np.testing.assert_allclose(certainty, expected, rtol=1e-5)  # type: ignore[arg-type]
    assert (tokens_read[0] < 0.75 * tokens_read[1]) == is_shared


@pytest.mark.parametrize("prompts", [[[5]], [[5], [6, 7, 8]]])
def test_prompts_of_one_token_are_read_as_they_are(prompts: list[list[int]]) -> None:
    torch.manual_seed(3)
    model = llama().double().eval()
    shared, plain = (generator(model, shares).outputs(prompts, POOL, 1) for shares in (True, False))
    assert shared == plain
