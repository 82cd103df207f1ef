"""The names of forms of documents with the outputs of systems, beside the systems file, and what each is in words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_ABOUT = {
    "mtme": "folder of a test set of mt-metrics-eval, with --language-pair where it has several",
    "wmt-xml": "XML of a WMT test set, with hypotheses of systems",
    "wmt-jsonl": "JSON lines of a WMT test set, a segment per line",
    "sacrebleu": "the file SET.PAIR.src of a test set of sacrebleu, beside its other fields",
    "summeval": "JSON lines in the style of SummEval, a summary per line",
}
DOCUMENT_FORMS: Mapping[str, str] = MappingProxyType(_ABOUT)
