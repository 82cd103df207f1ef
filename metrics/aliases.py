"""Other names that people type for metrics: some mean one metric, others several things, or something else here.

An alias is the metric itself, whatever its case and whichever of ``-`` and ``_`` it has. A remark is what is said of a
name that is none, by what it means rather than by its letters.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# a name, and the registered name of the same metric
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "discoscore": "ds-focus",
        "disco-score": "ds-focus",
        "dsfocus": "ds-focus",
        "dssent": "ds-sent",
        "cometkiwi": "comet-qe",
        "comet-kiwi": "comet-qe",
        "cometqe": "comet-qe",
        "doc-cometkiwi": "doc-comet-qe",
        "xcometqe": "xcomet-qe",
        "metricxqe": "metricx-qe",
        "bert-score": "bertscore",
        "doc-bert-score": "doc-bertscore",
        "bart-score": "bartscore",
        "rougel": "rouge-l",
        "rougelsum": "rouge-lsum",
        "rougew": "rouge-w",
        "rouge1": "rouge-1",
        "rouge2": "rouge-2",
        "chrf2": "chrf",
        "chrfpp": "chrf++",
        "chrf2++": "chrf++",
        "chrf-plus-plus": "chrf++",
        "sacrebleu": "bleu",
        "sacre-bleu": "bleu",
        "bleu4": "bleu",
        "bleu-4": "bleu",
        "self-consistency": "vote",
        "majority": "vote",
        "majority-vote": "vote",
        "sbert": "embedding",
        "sentence-bert": "embedding",
        "doccomet": "doc-comet",
        "comet-doc": "doc-comet",
        "entitygraph": "entity-graph",
        "lexicalchain": "lexical-chain",
        "rc": "cohesion",
        "lc": "cohesion",
        "word-error-rate": "wer",
        "character-error-rate": "cer",
        "reward-model": "reward",
        "rm": "reward",
        "cometpoly": "comet-poly",
        "comet-poly-cand": "comet-poly",
    }
)
_KIWI = {"model": "Unbabel/wmt22-cometkiwi-da"}
# the settings that an alias brings where they are not given
SETTINGS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "cometkiwi": _KIWI,
        "comet-kiwi": _KIWI,
        "doc-cometkiwi": _KIWI,
        "rc": {"measure": "rc"},
        "lc": {"measure": "lc"},
    }
)

_LIKELIHOOD = (
    "How likely a language model finds a text is lm, or in its document doc-lm. "
    "Log-probabilities that stand beside candidates are the feature logprob of rerank"
)
_ENTAILMENT = "A classifier of entailment, with the model that you name, is entail"
_FEATURE = "{name} is a feature of candidates, no metric: discorank rerank -m {name}"
REMARKS: Mapping[str, str] = MappingProxyType(
    {
        "logprob": _FEATURE,
        "logprob/length": _FEATURE,
        "logprob/tokens": _FEATURE,
        "length": _FEATURE,
        "copied": _FEATURE,
        "expected": "expected is a feature of rerank: discorank rerank -m expected -u UTILITY",
        "perplexity": _LIKELIHOOD,
        "ppl": _LIKELIHOOD,
        "likelihood": _LIKELIHOOD,
        "gpt": _LIKELIHOOD,
        "sescore": "Its successor is sescore2",
        "discotk": "Its light version is discotk-light; tuned sums of metrics are combination",
        "gemba": "A language model that judges is judge, or without references judge-qe",
        "llm-judge": "A language model that judges is judge, or without references judge-qe",
        "cosine": "The cosine of sentence embeddings is embedding",
        "unite": "UniTE's checkpoints are read by comet: comet(model=FOLDER)",
        "qe": "Without references score comet-qe, metricx-qe, xcomet-qe, embedding-qe and judge-qe; rerank -m qe takes "
        "the one whose checkpoint --model names",
        "moverscore": "Near it are bertscore and embedding, which compare by vectors too",
        "bertscore-f1": "bertscore is the F1",
        "edit-distance": "wer counts edits of words, cer of characters, ter of words and shifts",
        "levenshtein": "wer counts edits of words, cer of characters, ter of words and shifts",
        "rouge3": "Any n: rouge(n=3)",
        "rouge-3": "Any n: rouge(n=3)",
        "nli": _ENTAILMENT,
        "summac": _ENTAILMENT,
        "summac-zs": _ENTAILMENT,
        "factcc": _ENTAILMENT,
        "minicheck": _ENTAILMENT,
        "ted": "Near it are dr and discotk-light, which compare discourse trees",
        "coherence": "Coherence is measured by ds-focus, ds-sent, entity-graph, lexical-chain and cohesion",
        "faithfulness": "Faithfulness to a source: entail and bartscore-faithfulness",
        "mqm": "mqm is a human score: --human mqm:lower",
        "da": "da is a human score: --human da",
        "esa": "esa is a human score: --human esa",
    }
)


def plain_form(name: str) -> str:
    """A name in the letters that registered names have.

    >>> plain_form("BERT_Score")
    'bert-score'
    """
    return name.lower().replace("_", "-")


def alias_of(name: str) -> str | None:
    """The registered name that an alias stands for; None for what is none."""
    return ALIASES.get(plain_form(name))


def settings_of(name: str) -> Mapping[str, str]:
    """The settings that an alias brings."""
    return SETTINGS.get(plain_form(name), {})


def remark_on(name: str) -> str | None:
    """What to say of a name that is no metric's; None where nothing is known of it."""
    remark = REMARKS.get(plain_form(name))
    return None if remark is None else remark.format(name=plain_form(name))
