"""What stands in for the models and servers that pages name: tiny models, a server on this machine."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..integrations.test_prompt_logprobs import continuing, openai
from ..support.judging import compared, judged, prompt_of
from ..support.serving import Reply, Seen
from ..support.tiny_causal import write_causal
from ..support.tiny_generators import model_of, tokenizer_of

GOLDEN = Path(__file__).parents[1] / "golden"
MODELS = GOLDEN / "docmetrics" / "models"
POSITIONS = 1024
SERVER = "http://localhost:8000/v1"
GOLDEN_MODELS: Mapping[str, Path] = {
    "models/wmt22-comet-da": MODELS / "tiny-comet-ref",
    "Unbabel/wmt22-comet-da": MODELS / "tiny-comet-ref",
    "models/wmt20-comet-qe-da": MODELS / "tiny-comet-qe",
    "models/xlm-roberta-large": MODELS / "tiny-xlmr",
    "models/mbart-large-50": MODELS / "tiny-mbart50",
    "facebook/mbart-large-50-many-to-many-mmt": MODELS / "tiny-mbart50",
    "models/metricx-24-hybrid-large-v2p6": GOLDEN / "metricx" / "models" / "tiny-metricx-24",
    "models/mt5-large": GOLDEN / "metricx" / "models" / "tiny-mt5-tokenizer",
    "models/XCOMET-XL": GOLDEN / "xcomet" / "models" / "tiny-xcomet",
    "models/xlm-roberta-xl": GOLDEN / "xcomet" / "models" / "tiny-xlmr-xl",
    "models/Skywork-Reward-V2-Qwen3-0.6B": GOLDEN / "classifiers" / "models" / "tiny-llama-reward",
    "models/deberta-v3-base-mnli": GOLDEN / "classifiers" / "models" / "tiny-roberta-nli",
    "models/BLEURT-20": GOLDEN / "bleurt" / "models" / "tiny-bleurt-20",
}
GENERATORS: Mapping[str, str] = {
    "facebook/bart-large-cnn": "bart",
    "models/opus-mt-de-en": "bart",
    "Helsinki-NLP/opus-mt-de-en": "bart",
    "meta-llama/Llama-3.2-1B": "llama",
    "my-model": "llama",
}
TINY_BERT = MODELS / "tiny-bert"
# options that a tiny model needs behind a line that has these words, or that make it less work
FURTHER: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("--config mbr-metricx", ("-u", "metricx(version=24,regression_token_id=11)")),
    ("--config rerank-metricx-qe", ("-m", "metricx-qe(version=24,regression_token_id=11)")),
    ("discorank generate", ("--max-new-tokens", "8")),
    ("discorank train sescore2", ("--epochs", "1")),
    ("-u 'chrf + ds-focus'", ("-u", f'chrf + ds-focus(model="{TINY_BERT}")')),
    ("-m 'aligned(bertscore)'", ("-m", f'aligned(bertscore(model="{TINY_BERT}",layer=2))')),
    ("--backend server", ("--retries", "0")),
    ("--jobs 2", ("--jobs", "1")),  # tests/rerank/engines start processes
)


def stand_ins(folder: Path) -> dict[str, str]:
    """Folders and files of tiny models by the names of the pages, longer names first."""
    found = {name: str(path) for name, path in GOLDEN_MODELS.items()}
    for name, family in GENERATORS.items():
        _with_positions(model_of(family)).save_pretrained(folder / family)
        tokenizer_of(family).save_pretrained(folder / family)
        found[name] = str(folder / family)
    found["gemma3-270m"] = found["my-model"]
    found["my-sentences.txt"] = str(GOLDEN.parents[1] / "examples" / "target.txt")
    found["smollm2"] = str(write_causal(folder / "causal", "llama"))
    return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def _with_positions(model: Any) -> Any:
    """The same model for texts of up to `POSITIONS` tokens; short ones come out as before."""
    config = copy.deepcopy(model.config)
    config.max_position_embeddings = POSITIONS
    longer = type(model)(config)
    longer.generation_config = model.generation_config
    before = model.state_dict()
    for name, values in longer.state_dict().items():
        values[: len(before[name])] = before[name]
    return longer


def further(line: str) -> list[str]:
    """What a command line needs besides for the tiny models."""
    found = [word for words, options in FURTHER if words in line for word in options]
    if "--config mbr-doc-comet" in line and "--model" not in line:
        found += ["--model", str(MODELS / "tiny-comet-ref")]
        found += ["--encoder-path", str(MODELS / "tiny-xlmr")]
    if ("comet-qe" in line and "--encoder-path" not in line) or re.search(
        r"-u '(\w+\()*comet\(", line
    ):
        found += ["--encoder-path", str(MODELS / "tiny-xlmr")]
    return found


def answered(seen: Seen, number: int) -> Reply:
    """What the server of a page answers: scores, verdicts, log-probabilities of a prompt, or texts."""
    if seen.path.endswith("/score"):
        scores = [len(text) for text in seen.body["text_2"]]
        return Reply({"data": [{"index": i, "score": score} for i, score in enumerate(scores)]})
    if seen.body.get("echo"):
        return openai(seen)
    if "logprobs" in seen.body and "prompt" in seen.body:
        return continuing(seen)
    if "<first-" in prompt_of(seen):
        return compared(seen)
    if "<hypothesis-" in prompt_of(seen):
        return judged(seen)
    texts = ["The dog sleeps.", "The dog is sleeping.", "Dog!", "The dog sleeps."] * 8
    choices = [{"text": text, "message": {"content": text}} for text in texts]
    return Reply({"choices": choices[: seen.body["n"]]})
