"""A stand-in for fairseq's hub interface."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass
class Hub:
    """As much of fairseq's hub interface as is used; a text is a list of character codes, its samples are rotations."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    lose: int = 0

    def encode(self, text: str) -> torch.Tensor:
        return torch.tensor([ord(letter) for letter in text])

    def decode(self, tokens: torch.Tensor) -> str:
        return "".join(map(chr, tokens.tolist()))

    def generate(self, tokens: list[torch.Tensor], beam: int, **options: Any) -> Any:
        self.calls.append(
            {"beam": beam, "sentences": len(tokens), "draw": torch.rand(1).item(), **options}
        )
        scores = torch.tensor([-0.5, -0.25])
        hypotheses = [
            [
                {"tokens": one.roll(i), "score": -0.3, "positional_scores": scores}
                for i in range(beam)
            ]
            for one in tokens
        ]
        return hypotheses[self.lose :]
