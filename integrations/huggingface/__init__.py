"""Hugging Face models as generators: `generate` around a model, `custom_generate` inside it.

rankings = huggingface.generate(model, tokenizer, texts, utility="chrf", num_candidates=16, seed=3)
model.generate(**inputs, custom_generate=huggingface.custom_generate(tokenizer, "chrf", num_candidates=16, seed=3))
"""

from .custom_decoding import CustomGenerate, custom_generate
from .forced_passes import HuggingFaceScorer, ScoringSettings
from .generator import HuggingFaceGenerator, generate
from .model_loading import GenerationSettings

__all__ = [
    "CustomGenerate",
    "GenerationSettings",
    "HuggingFaceGenerator",
    "HuggingFaceScorer",
    "ScoringSettings",
    "custom_generate",
    "generate",
]
