"""A student trained by consensus: expected chrF within the group as reward, against chrF to the reference, and neither.

    python -m benchmarks.choice_quality.consensus_reward PAIRS [--base-steps N] [--steps N] [--seed N]

PAIRS has lines of JSON with "de" and "en". A small sequence-to-sequence model learns German to English from the first
pairs. Then it is trained from its own samples of further sources by policy gradients, with advantages relative to the
group of G samples (GRPO on policy, one step a batch, no reference policy):

    A_i = (reward_i - mean) / std within the group,    loss = -sum_i A_i log p(y_i | x) / tokens

Printed are beams (4) on pairs that nothing saw, with metrics that took no part, lengths, and 95 % intervals of the
differences (paired bootstrap over sentences); and what minimum Bayes risk decoding of 16 samples of the model before
would reach.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from time import perf_counter
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import BartConfig, BartForConditionalGeneration

import discorank
from benchmarks.serving.asking import load_average

PAD, BOS, EOS = 0, 1, 2
MAX_TOKENS = 40
GROUP = 8
BATCH = 24  # sources of a step
METRICS = ("chrf", "bleu", "ter", 'bertscore(model="minilm")')
Pair = dict[str, str]


def read_pairs(path: str, max_words: int) -> list[Pair]:
    """The pairs of a file, compressed or not, whose German has so many words at most."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as lines:
        pairs = [json.loads(line) for line in lines]
    return [pair for pair in pairs if len(pair["de"].split()) <= max_words]


class Student:
    """A small model and its tokens.

    Args:
        pairs: what its tokens are learned from.
        width: of its layers.
        layers: of the encoder, and of the decoder.
        vocabulary: how many tokens it has.
    """

    def __init__(self, pairs: Sequence[Pair], width: int, layers: int, vocabulary: int) -> None:
        self.tokens = Tokenizer(models.BPE())
        self.tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        self.tokens.decoder = decoders.ByteLevel()
        special = ["<pad>", "<s>", "</s>"]
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary, special_tokens=special, show_progress=False
        )
        self.tokens.train_from_iterator(
            (pair[key] for pair in pairs for key in ("de", "en")), trainer
        )
        sizes: dict[str, Any] = {}
        for side in ("encoder", "decoder"):
            sizes[f"{side}_layers"] = layers
            sizes[f"{side}_ffn_dim"] = 3 * width
            sizes[f"{side}_attention_heads"] = 4
        config = BartConfig(
            vocab_size=self.tokens.get_vocab_size(),
            d_model=width,
            max_position_embeddings=64,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
            dropout=0.1,
            **sizes,
        )
        self.model: Any = BartForConditionalGeneration(config)

    def ids(self, texts: Sequence[str]) -> torch.Tensor:
        """Ids with padding, [texts, tokens]."""
        rows = [
            [*encoding.ids[: MAX_TOKENS - 1], EOS]
            for encoding in self.tokens.encode_batch(list(texts))
        ]
        width = max(map(len, rows))
        return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])

    def texts(self, ids: torch.Tensor) -> list[str]:
        """The texts of generated ids [texts, tokens]."""
        rows = []
        for row in ids[:, 1:].tolist():
            rows.append(row[: row.index(EOS)] if EOS in row else row)
        return [text.strip() for text in self.tokens.decode_batch(rows)]

    def generated(self, sources: Sequence[str], **options: Any) -> torch.Tensor:
        """Generated ids [texts, tokens]."""
        ids = self.ids(sources)
        self.model.eval()
        with torch.no_grad():
            generated: torch.Tensor = self.model.generate(
                ids, attention_mask=ids != PAD, max_length=MAX_TOKENS, **options
            )
        return generated

    def beams(self, sources: Sequence[str]) -> list[str]:
        """The best of a beam of 4 for every source."""
        texts = []
        for start in range(0, len(sources), 64):
            texts += self.texts(
                self.generated(sources[start : start + 64], num_beams=4, do_sample=False)
            )
        return texts

    def samples(self, sources: Sequence[str], n: int) -> torch.Tensor:
        """n samples of every source, [sources * n, tokens]."""
        return self.generated(sources, do_sample=True, num_return_sequences=n, top_k=0)


def batches(pairs: Sequence[Pair], size: int, rng: np.random.Generator) -> Iterator[list[Pair]]:
    """Pairs in new orders without end."""
    while True:
        order = rng.permutation(len(pairs))
        for start in range(0, len(order) - size + 1, size):
            yield [pairs[i] for i in order[start : start + size]]


def learn(student: Student, pairs: Sequence[Pair], steps: int, rng: np.random.Generator) -> None:
    """Learns from pairs by maximum likelihood."""
    optimizer = torch.optim.AdamW(student.model.parameters(), lr=2e-3, weight_decay=0.01)
    warm = 200
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, max(0.02, 1 - step / steps))
    )
    data = batches(pairs, 64, rng)
    for step in range(steps):
        batch = next(data)
        student.model.train()
        sources, targets = (student.ids([pair[key] for pair in batch]) for key in ("de", "en"))
        labels = targets.masked_fill(targets == PAD, -100)
        loss = student.model(sources, attention_mask=sources != PAD, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % 200 == 0:
            print(f"  step {step + 1}: loss {loss.item():.3f}", flush=True)


def reinforce(
    student: Student,
    pairs: Sequence[Pair],
    steps: int,
    rewards_of: Callable[..., Sequence[float | None]],
    rng: np.random.Generator,
) -> None:
    """Trains on samples by their rewards within their groups."""
    optimizer = torch.optim.AdamW(student.model.parameters(), lr=1e-4, weight_decay=0.0)
    data = batches(pairs, BATCH, rng)
    for step in range(steps):
        batch = next(data)
        sources = [pair["de"] for pair in batch]
        samples = student.samples(sources, GROUP)
        prompts = [source for source in sources for _ in range(GROUP)]
        references = [pair["en"] for pair in batch for _ in range(GROUP)]
        given = rewards_of(
            completions=student.texts(samples), prompts=prompts, reference=references
        )
        rewards = torch.tensor([float(reward) for reward in given if reward is not None])
        groups = rewards.view(len(batch), GROUP)
        spread = groups.std(dim=1, keepdim=True) + 1e-4
        advantages = ((groups - groups.mean(dim=1, keepdim=True)) / spread).view(-1)
        ids = student.ids(sources).repeat_interleave(GROUP, dim=0)
        targets = samples[:, 1:]
        # the model is not in training mode: dropout would change the policy that drew the samples
        logits = student.model(
            ids, attention_mask=ids != PAD, decoder_input_ids=samples[:, :-1]
        ).logits
        logprobs = logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
        counts = (targets != PAD).float()
        loss = -(advantages[:, None] * logprobs * counts).sum() / counts.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % 25 == 0:
            length = counts.sum(dim=1).mean().item()
            print(
                f"  step {step + 1}: reward {rewards.mean():.2f}, {length:.1f} tokens", flush=True
            )


def interval(differences: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """The 95 % interval of a mean, by bootstrap."""
    draws = rng.integers(0, len(differences), (2000, len(differences)))
    low, high = np.quantile(differences[draws].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def report(name: str, texts: list[str], before: list[str] | None, test: Sequence[Pair]) -> None:
    """Prints means and differences, with metrics as utilities."""
    references = [pair["en"] for pair in test]
    rng = np.random.default_rng(0)
    words = np.mean([len(text.split()) for text in texts])
    cells = [f"{name:22} {words:5.1f} words, {len(set(texts))} distinct"]
    for metric in METRICS:
        utility = discorank.load_metric(metric)
        sign = utility.parts[0][1].utility_sign
        values = utility.score(texts, references)
        scale = 100 if metric.startswith("bertscore") else 1
        cell = f"{utility.name} {scale * values.mean():.2f}"
        if before is not None:
            change = scale * sign * (values - utility.score(before, references))
            low, high = interval(change, rng)
            cell += f" (better by {change.mean():+.2f} [{low:+.2f}, {high:+.2f}])"
        cells.append(cell)
    corpus = discorank.load_metric("bleu").corpus(texts, references)
    print("; ".join([*cells, f"corpus BLEU {corpus:.2f}"]), flush=True)


def main() -> None:
    """Trains and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs")
    parser.add_argument("--base-steps", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--test", type=int, default=600)
    parser.add_argument("--max-words", type=int, default=99)
    parser.add_argument("--width", type=int, default=160)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--vocabulary", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    pairs = read_pairs(options.pairs, options.max_words)
    test, further, base = pairs[: options.test], pairs[options.test : 3000], pairs[3000:]
    print(f"load: {load_average()}; {len(base)} pairs, {len(further)} sources, {len(test)} to test")
    torch.manual_seed(options.seed)
    student = Student(base, options.width, options.layers, options.vocabulary)
    start = perf_counter()
    learn(student, base, options.base_steps, np.random.default_rng(options.seed))
    print(
        f"{sum(p.numel() for p in student.model.parameters()) / 1e6:.1f} M weights; "
        f"learned in {perf_counter() - start:.0f} s",
        flush=True,
    )
    sources = [pair["de"] for pair in test]
    before = student.beams(sources)
    report("before", before, None, test)
    groups = student.texts(student.samples(sources, 16))
    lists = [groups[i : i + 16] for i in range(0, len(groups), 16)]
    decoder = discorank.MBRDecoder("chrf")
    report("MBR of 16 before", [r.text for r in decoder.decode(lists)], before, test)
    arms: dict[str, Any] = {
        "consensus": discorank.group_reward("chrf", num_generations=GROUP),
        "reference": discorank.reward("chrf"),
    }
    state = deepcopy(student.model.state_dict())
    for name, rewards_of in arms.items():
        student.model.load_state_dict(state)
        torch.manual_seed(options.seed)
        start = perf_counter()
        print(f"{name}: {rewards_of.__name__}")
        reinforce(student, further, options.steps, rewards_of, np.random.default_rng(options.seed))
        print(f"  {perf_counter() - start:.0f} s", flush=True)
        report(f"{name} reward", student.beams(sources), before, test)


if __name__ == "__main__":
    main()
