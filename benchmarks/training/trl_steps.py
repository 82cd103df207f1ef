"""Whether TRL's trainers take what ``discorank export`` writes: one step of each on a tiny model with random weights.

    python -m benchmarks.training.trl_steps RUN

RUN is a run of ``discorank decode --nbest all`` whose lists have sources. It needs ``trl``, in an environment of its
own if it does not fit beside the rest (``pip install --no-deps trl`` into a folder on PYTHONPATH is enough). Every kind
is exported in both forms, loaded with ``datasets``, and trained on for one step.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from discorank.cli.main import main as discorank
from tests.support.tiny_causal import byte_tokenizer, causal_model

ROWS = 16
TEMPLATE = (
    "{% for m in messages %}{{ '<s>' + m['role'] + ':' + m['content'] + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant:' }}{% endif %}"
)


def write_model(folder: Path) -> Any:
    """Writes a model with its tokenizer, which has a chat template; returns the tokenizer."""
    tokenizer = byte_tokenizer()
    tokenizer.pad_token, tokenizer.chat_template = "</s>", TEMPLATE
    model = causal_model("llama", vocabulary=len(tokenizer), max_position_embeddings=1024)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer


def step(kind: str, data: Any, model: Path, tokenizer: Any, out: Path) -> float:
    """The loss of one step of the trainer of a kind."""
    from transformers import AutoModelForCausalLM

    trl: Any = import_module("trl")

    name = {"sft": "SFT", "pairs": "DPO", "kto": "KTO"}[kind]
    settings = getattr(trl, f"{name}Config")(
        output_dir=str(out),
        max_steps=1,
        per_device_train_batch_size=4,
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        save_strategy="no",
        disable_tqdm=True,
    )
    loaded: Any = AutoModelForCausalLM.from_pretrained(model)
    trainer = getattr(trl, f"{name}Trainer")(
        model=loaded, args=settings, train_dataset=data, processing_class=tokenizer
    )
    return float(trainer.train().training_loss)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", metavar="RUN")
    options = parser.parse_args()
    import torch

    datasets: Any = import_module("datasets")
    trl: Any = import_module("trl")
    torch.set_num_threads(1)
    with TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = write_model(folder / "model")
        for form in ("standard", "conversational"):
            for kind in ("sft", "pairs", "kto"):
                path = folder / f"{form}.{kind}.jsonl"
                more = ["--conversational"] if form == "conversational" else []
                if discorank(["export", kind, options.run, "-o", str(path), "--quiet", *more]):
                    raise SystemExit(2)
                rows = datasets.load_dataset(
                    "json", data_files=str(path), split="train", cache_dir=str(folder / "cache")
                )
                some = rows.select(range(min(ROWS, len(rows))))
                loss = step(kind, some, folder / "model", tokenizer, folder / "out")
                print(
                    f"trl {trl.__version__}, {kind}, {form}: one step, loss {loss:.3f}", flush=True
                )


if __name__ == "__main__":
    main()
