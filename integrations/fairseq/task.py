"""The fairseq task ``discorank_translation``: translation whose n-best lists come out in the order of a utility.

    fairseq-generate DATA --path MODEL --user-dir $(python -m discorank.integrations.fairseq) \\
        --task discorank_translation --discorank-utility chrf --beam 16 --nbest 16 ...
Its log is that of fairseq, with the hypotheses of a sentence in the new order and the scores that the model gave them.
fairseq is imported when the task is registered.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, make_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

from ...metrics.errors import InputError
from ...metrics.registry import load_metric
from ...metrics.storage.json_and_yaml import read_yaml
from ...rerank.choice import Ranking
from ...rerank.engines.interface import Engine
from ...rerank.engines.local import LocalEngine
from ...rerank.lists import Candidate, CandidateList
from ...rerank.mbr import MBRDecoder
from ...rerank.reranker import Reranker


def read_decider(
    utility: str | None, config: str | None, allow_code: Sequence[str] = ()
) -> MBRDecoder | Reranker:
    """The decider that two options name: a utility, or a YAML file with the settings of a decoder or reranker.

    `allow_code` is that of `load_metric`.

    Raises:
        InputError: not exactly one of them is given, or it cannot be read.
    """
    if (utility is None) == (config is None):
        raise InputError("give one of them", where="--discorank-utility, --discorank-config")
    settings: dict[str, Any] = {"utility": utility}
    if config is not None:
        settings = read_yaml(Path(config))
    if "utility" in settings:
        settings["utility"] = load_metric(settings["utility"], allow_code=allow_code)
    if "features" in settings:
        return Reranker(**settings)
    return MBRDecoder(**settings)


class Chooser:
    """Orders candidates.

    Args:
        decider: the decoder or reranker whose order is taken.
        keep: how many distinct texts are kept of each list; all candidates if not given, copies too.
        engine: computes the utilities; one in this process if not given.

    Raises:
        InputError: the decider needs the context of documents, or `keep` is below 1.
    """

    def __init__(
        self,
        decider: MBRDecoder | Reranker,
        keep: int | None = None,
        engine: Engine | None = None,
    ) -> None:
        if decider.width:
            raise InputError(
                "a metric with context, but fairseq sorts sentences by length",
                where="utility",
                fix="Decode the log: discorank decode LOG --from fairseq --documents FILE",
            )
        if keep is not None and keep < 1:
            raise InputError(f"found {keep}, expected at least 1", where="keep")
        self._decider = decider.with_settings(nbest=None)
        self._engine = engine or LocalEngine()
        self._keep = keep

    def order(self, lists: Sequence[CandidateList]) -> Iterator[list[int]]:
        """Of every list, the indices of its candidates, best first; of equal texts the first in the list comes first.

        Raises:
            DiscorankError: a list that cannot be decided.
        """
        for ranking in self._decider.decode(lists, self._engine):
            if self._keep is not None:
                yield [ranked.index for ranked in ranking.ranking[: self._keep]]
            else:
                yield _all_indices(ranking)


def _all_indices(ranking: Ranking) -> list[int]:
    """Every candidate in the order of its text; texts that a shortlist left out come last, in the order given."""
    rank_of_text = {place.text: rank for rank, place in enumerate(ranking.ranking)}
    last = len(rank_of_text)
    ranks = [rank_of_text.get(candidate.text, last) for candidate in ranking.candidates]
    # the sort is stable, so that copies keep their order
    return sorted(range(len(ranks)), key=ranks.__getitem__)


TASK = "discorank_translation"
# fairseq does not know X | None
_TEXT: Any = Optional[str]  # noqa: UP045
_NUMBER: Any = Optional[int]  # noqa: UP045
_OPTIONS: Mapping[str, tuple[Any, str]] = {
    "utility": (_TEXT, "metric whose expected utility orders the hypotheses, such as chrf"),
    "config": (_TEXT, "YAML file with the settings of an MBRDecoder or a Reranker instead"),
    "allow_code": (_TEXT, "modules, with commas between them, whose code a combination may name"),
    "keep": (_NUMBER, "how many distinct hypotheses are kept; all, copies too, if not given"),
    "post_process": (_TEXT, "the value of --post-process; none for whole words"),
}


def register() -> type:
    """Makes the task known to fairseq, and returns it."""
    from fairseq.tasks import TASK_REGISTRY, register_task  # pyright: ignore[reportMissingImports]
    from fairseq.tasks.translation import TranslationConfig, TranslationTask  # pyright: ignore[reportMissingImports]

    allow_arguments()
    if TASK in TASK_REGISTRY:
        return TASK_REGISTRY[TASK]  # type: ignore[no-any-return]
    options = [
        (f"discorank_{name}", kind, field(default=None, metadata={"help": about}))
        for name, (kind, about) in _OPTIONS.items()
    ]
    config = make_dataclass("DiscorankTranslationConfig", options, bases=(TranslationConfig,))
    bases, about_task = (ChoosingTask, TranslationTask), {"__doc__": ChoosingTask.__doc__}
    task = type("DiscorankTranslationTask", bases, about_task)
    return register_task(TASK, dataclass=config)(task)  # type: ignore[no-any-return]


def allow_arguments() -> None:
    """Allow torch's weights-only loading to read ``argparse.Namespace``, which every fairseq checkpoint holds.

    fairseq evaluates some of the strings in it, so that checkpoints must be trusted.
    """
    import torch

    torch.serialization.add_safe_globals([Namespace])


class ChoosingTask:
    """An addition to a translation task: after every batch, its hypotheses are put in order."""

    cfg: Any
    source_dictionary: Any
    target_dictionary: Any
    _decoders: tuple[Any, Any] = (None, None)  # BPE, tokenizer

    def build_tokenizer(self, args: Any) -> Any:
        """The tokenizer, which is kept."""
        self._decoders = (self._decoders[0], super().build_tokenizer(args))  # type: ignore[misc]
        return self._decoders[1]

    def build_bpe(self, args: Any) -> Any:
        """The BPE, which is kept."""
        self._decoders = (super().build_bpe(args), self._decoders[1])  # type: ignore[misc]
        return self._decoders[0]

    def inference_step(
        self,
        generator: Any,
        models: Any,
        sample: Any,
        *args: Any,
        **kwargs: Any,
    ) -> list[list[Any]]:
        """The hypotheses of every sentence of a batch, best first.

        Raises:
            DiscorankError: a list that cannot be decided, or texts that would be compared by subwords.
        """
        nbest_lists = super().inference_step(generator, models, sample, *args, **kwargs)  # type: ignore[misc]
        dictionary = self.source_dictionary
        sources = [
            self._text(dictionary, row[row.ne(dictionary.pad())].int().cpu())
            for row in sample["net_input"]["src_tokens"]
        ]
        strip = getattr(generator, "symbols_to_strip_from_output", None) or {generator.eos}
        lists: list[CandidateList] = []
        for hypotheses, source in zip(nbest_lists, sources, strict=True):
            candidates = tuple(self._candidate(hypothesis, strip) for hypothesis in hypotheses)
            lists.append(CandidateList(str(len(lists)), candidates, source))
        orders = self._chooser.order(lists)
        return [
            [hypotheses[i] for i in order]
            for hypotheses, order in zip(nbest_lists, orders, strict=True)
        ]

    @cached_property
    def _chooser(self) -> Chooser:
        allow_code = tuple(filter(None, (self.cfg.discorank_allow_code or "").split(",")))
        decider = read_decider(self.cfg.discorank_utility, self.cfg.discorank_config, allow_code)
        return Chooser(decider, self.cfg.discorank_keep)

    @cached_property
    def _post_process(self) -> str | None:
        """The symbol that joins subwords or None; raises InputError if it is not set though there are subwords."""
        bpe, _ = self._decoders
        post_process = self.cfg.discorank_post_process
        if post_process is None and bpe is None and _has_subwords(self.target_dictionary):
            raise InputError(
                "the dictionary has subwords (@@ or \u2581) and nothing joins them",
                where="--discorank-post-process",
                fix="Give --bpe, or the value of --post-process, or none to compare subwords",
            )
        return None if post_process == "none" else post_process

    def _text(self, dictionary: Any, tokens: Any, strip: Any = None) -> str:
        """Tokens as text: as fairseq-generate writes it in its S- and D- lines."""
        text = dictionary.string(tokens, self._post_process, extra_symbols_to_ignore=strip)
        for decoder in self._decoders:
            if decoder is not None:
                text = decoder.decode(text)
        return str(text)

    def _candidate(self, hypothesis: Mapping[str, Any], strip: Any) -> Candidate:
        """A hypothesis of the generator, whose scores are natural logarithms."""
        tokens = hypothesis["tokens"].int().cpu()
        text = self._text(self.target_dictionary, tokens, strip)
        logprob = float(hypothesis["positional_scores"].sum())
        score = float(hypothesis["score"])
        return Candidate(text, logprob, {"score": score})


def _has_subwords(dictionary: Any) -> bool:
    return any(
        symbol.endswith("@@") or symbol.startswith("\u2581") for symbol in dictionary.symbols
    )
