"""Names of metrics: the classes they stand for, aliases, remarks on other names, and names of models.

A name stands for a class, imported when the metric is asked for, and the settings that it fixes. A name is known in any
letters, whatever its case, ``-`` and ``_``. A remark says what a name means that is not a metric's. Nothing is looked
up or loaded here; packages above add their own metrics with `register`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple


class Registration(NamedTuple):
    """The ``module:Class`` that a name stands for, and the settings that it fixes."""

    target: str
    settings: Mapping[str, Any] = {}


BUILT_IN: dict[str, Registration] = {
    "chrf": Registration("discorank.metrics.lexical.chrf:ChrF"),
    "chrf++": Registration("discorank.metrics.lexical.chrf:ChrF", {"word_order": 2}),
    "bleu": Registration("discorank.metrics.lexical.bleu:BLEU"),
    "ter": Registration("discorank.metrics.lexical.ter:TER"),
    "rouge-1": Registration("discorank.metrics.lexical.rouge:RougeN", {"n": 1}),
    "rouge-2": Registration("discorank.metrics.lexical.rouge:RougeN", {"n": 2}),
    "rouge": Registration("discorank.metrics.lexical.rouge:RougeN"),
    "rouge-l": Registration("discorank.metrics.lexical.rouge:RougeL"),
    "rouge-lsum": Registration("discorank.metrics.lexical.rouge:RougeLsum"),
    "rouge-w": Registration("discorank.metrics.lexical.rouge:RougeW"),
    "wer": Registration("discorank.metrics.lexical.error_rate:WER"),
    "cer": Registration("discorank.metrics.lexical.error_rate:CER"),
    "nist": Registration("discorank.metrics.lexical.nist:NIST"),
    "meteor": Registration("discorank.metrics.lexical.meteor:METEOR"),
    "vote": Registration("discorank.metrics.lexical.vote:Vote"),
    "dr": Registration("discorank.metrics.rst.metric:DR"),
    "dr-nolex": Registration("discorank.metrics.rst.metric:DR"),
    "dr-lex": Registration("discorank.metrics.rst.metric:DRLex"),
    "discotk-light": Registration("discorank.metrics.rst.metric:DiscoTKLight"),
    "ds-focus": Registration("discorank.metrics.discourse.coherence.ds_focus:DSFocus"),
    "ds-sent": Registration("discorank.metrics.discourse.coherence.ds_sent:DSSent"),
    "cohesion": Registration("discorank.metrics.discourse.coherence.cohesion:Cohesion"),
    "entity-graph": Registration("discorank.metrics.discourse.coherence.entity_graph:EntityGraph"),
    "lexical-chain": Registration(
        "discorank.metrics.discourse.coherence.lexical_chain:LexicalChain"
    ),
    "pdd": Registration("discorank.metrics.discourse.roles.pdd:PDD"),
    "role-match": Registration("discorank.metrics.discourse.roles.pdd:RoleMatch"),
    "combination": Registration("discorank.metrics.combination:Combination"),
    "bertscore": Registration("discorank.metrics.neural.bertscore:BERTScore"),
    "doc-bertscore": Registration("discorank.metrics.neural.bertscore:BERTScore", {"context": 2}),
    "comet": Registration("discorank.metrics.neural.comet.metric:Comet"),
    "doc-comet": Registration("discorank.metrics.neural.comet.metric:Comet", {"context": 2}),
    "comet-qe": Registration("discorank.metrics.neural.comet.metric:CometQE"),
    "doc-comet-qe": Registration("discorank.metrics.neural.comet.metric:CometQE", {"context": 2}),
    "comet-poly": Registration("discorank.metrics.neural.comet.metric:CometPoly"),
    "xcomet": Registration("discorank.metrics.neural.xcomet:XComet"),
    "doc-xcomet": Registration("discorank.metrics.neural.xcomet:XComet", {"context": 1}),
    "xcomet-qe": Registration("discorank.metrics.neural.xcomet:XCometQE"),
    "metricx": Registration("discorank.metrics.neural.metricx.metric:MetricX"),
    "doc-metricx": Registration("discorank.metrics.neural.metricx.metric:MetricX", {"context": 2}),
    "metricx-qe": Registration("discorank.metrics.neural.metricx.metric:MetricXQE"),
    "doc-metricx-qe": Registration(
        "discorank.metrics.neural.metricx.metric:MetricXQE", {"context": 2}
    ),
    "embedding": Registration("discorank.metrics.neural.embedding.metric:Embedding"),
    "doc-embedding": Registration(
        "discorank.metrics.neural.embedding.metric:Embedding", {"context": 2}
    ),
    "embedding-qe": Registration("discorank.metrics.neural.embedding.metric:EmbeddingQE"),
    "bleurt": Registration("discorank.metrics.neural.bleurt.metric:BLEURT"),
    "doc-bleurt": Registration("discorank.metrics.neural.bleurt.metric:BLEURT", {"context": 2}),
    "sescore2": Registration("discorank.metrics.sescore2.metric:SEScore2"),
    "lm": Registration("discorank.metrics.neural.causal.metric:LM"),
    "doc-lm": Registration("discorank.metrics.neural.causal.metric:LM", {"context": 2}),
    "lm-pair": Registration("discorank.metrics.neural.causal.metric:LMPair"),
    "entail": Registration("discorank.metrics.neural.entail:Entail"),
    "reward": Registration("discorank.metrics.neural.reward:Reward"),
    "prism": Registration("discorank.metrics.neural.likelihood:Prism"),
    "doc-prism": Registration("discorank.metrics.neural.likelihood:Prism", {"context": 2}),
    "bartscore": Registration("discorank.metrics.neural.likelihood:BARTScore"),
    "bartscore-faithfulness": Registration(
        "discorank.metrics.neural.likelihood:BARTScoreFaithfulness"
    ),
}

# Wrappers, written around a metric: ``aligned(chrf)``.
WRAPPERS: Mapping[str, Registration] = {
    "aligned": Registration("discorank.metrics.documents.aligned:Aligned"),
    "windows": Registration("discorank.metrics.documents.windows:Windows"),
    "split": Registration("discorank.metrics.documents.wrapper:Split"),
}


# Aliases in plain letters, and the registered names of the same metrics.
ALIASES: Mapping[str, str] = {
    "discoscore": "ds-focus",
    "cometkiwi": "comet-qe",
    "doccometkiwi": "doc-comet-qe",
    "chrf2": "chrf",
    "chrfpp": "chrf++",
    "chrf2++": "chrf++",
    "chrfplusplus": "chrf++",
    "sacrebleu": "bleu",
    "bleu4": "bleu",
    "selfconsistency": "vote",
    "majority": "vote",
    "majorityvote": "vote",
    "sbert": "embedding",
    "sentencebert": "embedding",
    "cometdoc": "doc-comet",
    "rc": "cohesion",
    "lc": "cohesion",
    "worderrorrate": "wer",
    "charactererrorrate": "cer",
    "rewardmodel": "reward",
    "rm": "reward",
    "cometpolycand": "comet-poly",
}
_KIWI = {"model": "Unbabel/wmt22-cometkiwi-da"}
# The settings that an alias has where they are not given.
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "cometkiwi": _KIWI,
    "doccometkiwi": _KIWI,
    "rc": {"measure": "rc"},
    "lc": {"measure": "lc"},
}

_LIKELIHOOD = (
    "How likely a language model finds a text is lm, or in its document doc-lm. "
    "Log-probabilities that stand beside candidates are the feature logprob of rerank"
)
_ENTAILMENT = "A classifier of entailment, with the model that you name, is entail"
_FEATURE = "{name} is a feature of candidates, no metric: discorank rerank -m {name}"
REMARKS: Mapping[str, str] = {
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
    "llmjudge": "A language model that judges is judge, or without references judge-qe",
    "cosine": "The cosine of sentence embeddings is embedding",
    "unite": "UniTE's checkpoints are read by comet: comet(model=FOLDER)",
    "qe": "Without references score comet-qe, metricx-qe, xcomet-qe, embedding-qe and judge-qe; rerank -m qe takes "
    "the one whose checkpoint --model names",
    "moverscore": "Near it are bertscore and embedding, which compare by vectors too",
    "bertscoref1": "bertscore is the F1",
    "editdistance": "wer counts edits of words, cer of characters, ter of words and shifts",
    "levenshtein": "wer counts edits of words, cer of characters, ter of words and shifts",
    "rouge3": "Any n: rouge(n=3)",
    "nli": _ENTAILMENT,
    "summac": _ENTAILMENT,
    "summaczs": _ENTAILMENT,
    "factcc": _ENTAILMENT,
    "minicheck": _ENTAILMENT,
    "ted": "Near it are dr and discotk-light, which compare discourse trees",
    "coherence": "Coherence is measured by ds-focus, ds-sent, entity-graph, lexical-chain and cohesion",
    "faithfulness": "Faithfulness to a source: entail and bartscore-faithfulness",
    "mqm": "mqm is a human score: --human mqm:lower",
    "da": "da is a human score: --human da",
    "esa": "esa is a human score: --human esa",
}
# Patterns of names of models, the metric that reads them, and their owner on the hub; the first that fits counts.
FAMILIES: tuple[tuple[str, str, str], ...] = (
    (r"xcomet[\w.-]*", "xcomet", "Unbabel"),
    (r"comet-poly[\w.-]*", "comet-poly", "zouharvi"),
    (r"[\w.-]*reward[\w.-]*", "reward", ""),
    (r"nli-[\w.-]*", "entail", ""),
    (r"[\w.-]*(comet-?qe|cometkiwi)[\w.-]*", "comet-qe", "Unbabel"),
    (r"[\w.-]*comet-(da|mqm|stinkyboi)[\w.-]*", "comet", "Unbabel"),
    (r"metricx-[\w.-]*qe[\w.-]*", "metricx-qe", "google"),
    (r"metricx-[\w.-]+", "metricx", "google"),
    (r"bleurt-[\w.-]+", "bleurt", "lucadiliello"),
    (r"sescore2_[\w.-]+", "sescore2", "xu1998hz"),
    (r"bart-(base|large)[\w.-]*", "bartscore", "facebook"),
    (r"mbart-[\w.-]+", "prism", "facebook"),
    (r"minilm", "bertscore", ""),
    (r"((xlm-)?roberta|deberta|bert)-[\w.-]+", "bertscore", ""),
    (r"labse|all-minilm-[\w.-]+|paraphrase-[\w.-]+", "embedding", "sentence-transformers"),
    (r"smollm2[\w.-]*", "lm", ""),
    (r"(gpt2|qwen|llama|gemma|mistral)[\w.-]*", "lm", ""),
)


def register(name: str, target: str, **settings: Any) -> None:
    """Add the name of a metric of a package above this one."""
    BUILT_IN[name] = Registration(target, settings)


def letters(name: str) -> str:
    """Return a name without what its spellings differ in.

    >>> letters("BERT_Score")
    'bertscore'
    """
    return name.lower().replace("_", "").replace("-", "")


def metric_of_model(name: str) -> str | None:
    """Return the signature that scores with the model of this name; None for an unknown model.

    >>> metric_of_model("wmt22-comet-da")
    'comet(model="Unbabel/wmt22-comet-da")'
    """
    owner, _, own_name = name.rpartition("/")
    for pattern, metric, usual_owner in FAMILIES:
        if re.fullmatch(pattern, own_name, re.IGNORECASE):
            model = f"{owner or usual_owner}/{own_name}".removeprefix("/")
            return f'{metric}(model="{model}")'
    return None


def meaning_of(name: str) -> tuple[str, str]:
    """Return the problem with a name that is not a metric's and what to write instead; empty where nothing is known."""
    remark = REMARKS.get(letters(name))
    if remark is not None:
        return f"unknown metric {name!r}", remark.format(name=name.lower())
    signature = metric_of_model(name)
    return ("", "") if signature is None else (f"{name!r} is a model", f"Write '{signature}'")
