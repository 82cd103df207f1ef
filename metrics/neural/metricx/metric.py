"""MetricX (Juraska et al. 2023, 2024): how many mistakes a translation has, by an encoder-decoder that reads all texts.

    score = min(25, max(0, w . decoder(start | encoder(source: s candidate: h reference: r))))

MetricX-24 reads the source too, MetricX-23 reads hypothesis and reference; ``metricx-qe`` goes without reference. From
0 to 25, lower is better, not symmetric; an empty text is scored like any other. With ``context=k``, windows of k + 1
sentences, joined by blanks, are scored as one text, as MetricX-24 was trained on segments of several sentences; a
document is the mean of its windows.

Texts stand behind their names, as one sequence of ids:

    24, with reference   source: {s} candidate: {h} reference: {r}
    24, without          source: {s} candidate: {h}
    23, with reference   candidate: {h} reference: {r}
    23, without          candidate: {h} source: {s}

The tokenizer splits at spaces first, so the ids of names and texts, one after the other, are those of the whole
string: each text is tokenised once. The released code cuts the sequence on the right to `max_tokens`, its end token
counted, and then takes that away; a special token written out in a text is broken up here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal
from warnings import warn

import numpy as np

from ...errors import InputError, ModelLoadError
from ...execution.store import in_batches
from ...representations import (
    Block,
    FloatArray,
    IntArray,
    Ragged,
    Reps,
    by_block,
    by_hypothesis,
    cell_rows,
    hypothesis_rows,
)
from ...scorer import Info, Scorer
from ...spec.checked_settings import Field, settings
from ...text.texts import Item
from ..models.context_tokens import broken_up, special_tokens
from ..models.encoder import CPU_TOKENS, GPU_TOKENS, device_of
from ..models.files import model_files
from ..models.pretrained import tokenizer_of
from ..models.settings import JoinedScorer, ModelMetric, WindowMetric

Version = Literal[23, 24]
Part = Literal["source", "candidate", "reference"]
PARTS: dict[tuple[Version, bool], tuple[Part, ...]] = {
    (24, True): ("source", "candidate", "reference"),
    (24, False): ("source", "candidate"),
    (23, True): ("candidate", "reference"),
    (23, False): ("candidate", "source"),
}
# Tokens that the released models were trained with.
MAX_TOKENS: dict[Version, int] = {23: 1024, 24: 1536}

# The least and the greatest number of mistakes that the paper's number stands for.
LOWEST, HIGHEST = 0.0, 25.0

# The piece <extra_id_10>, whose logit is the score.
REGRESSION_TOKEN = 250089
NAME = re.compile(r"metricx-(23|24)(-qe)?", re.IGNORECASE)
TOKENIZER_FILES = ("spiece.model", "tokenizer.json")


@settings
class MetricXMetric(WindowMetric):
    """Names, versions and loading, for both metrics.

    Args:
        model: the folder of a released model, or a name on the hub.
        tokenizer_path: folder or hub name of mT5's tokenizer; not needed if it is in the model's folder.
        version: 23 or 24; the model's name tells it if not given.
        max_tokens: the longest input, in tokens; 1536 for version 24 and 1024 for 23 if not given.
        regression_token_id: the token whose logit is the score; another for small test models alone.
        context: sentences before each one that are read with it as one window, at most 9.
    """

    default_model: ClassVar[str] = "google/metricx-24-hybrid-large-v2p6"
    tokenizer_path: str | None = None
    version: Literal[23, 24] | None = None
    regression_token_id: Annotated[int, Field(ge=0)] = REGRESSION_TOKEN
    context: Annotated[int, Field(ge=0)] = 0
    folder_settings: ClassVar[tuple[str, ...]] = ("tokenizer_path",)
    reads_reference: ClassVar[bool]
    max_context: ClassVar[int] = 9

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dtype == "float16":
            fix = "Use float32 or bfloat16"
            raise InputError("float16 overflows in this network", where=self.name, fix=fix)

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The papers of both versions, or that of the one that is named; its windows are in no paper."""
        version = settings.get("version")
        papers = {23: ("juraska2023metricx",), 24: ("juraska2024metricx",)}
        return papers.get(version, cls.info.papers)  # type: ignore[arg-type]

    @property
    def known_version(self) -> Version:
        """The version that is set, or that the model's name tells.

        Raises:
            InputError: neither does.
        """
        if self.version is not None:
            return self.version
        named = NAME.findall(self.named("model"))
        if not named:
            raise InputError(
                "cannot tell MetricX-23 from MetricX-24, which read other inputs",
                where=f"{self.name}: {self.named('model')}",
                fix="Give version=23 or version=24",
            )
        return 23 if named[-1][0] == "23" else 24

    @property
    def needs_source(self) -> bool:
        """Whether the version reads the source: with a reference, MetricX-23 does not."""
        return "source" in PARTS[self.known_version, self.reads_reference]

    def load(self) -> Scorer:
        """The network and its tokenizer."""
        import torch

        from .t5 import T5Regression

        version = self.known_version
        self._warn_of_mode(version)
        folder = self.model_path()
        tokenizer = tokenizer_of(self._tokenizer_folder(folder))
        device = device_of(self.device)
        network = T5Regression(folder, self.regression_token_id, device, getattr(torch, self.dtype))
        max_tokens = self.max_tokens or MAX_TOKENS[version]
        parts = InputParts(tokenizer, PARTS[version, self.reads_reference], max_tokens)
        batch_tokens = CPU_TOKENS if device.type == "cpu" else GPU_TOKENS
        return MetricXScorer(self, network, parts, self.batch_tokens or batch_tokens)

    def _tokenizer_folder(self, folder: Any) -> Any:
        """The folder of the tokenizer.

        Raises:
            ModelLoadError: it is not named, and not in the model's folder.
        """
        if self.tokenizer_path:
            return model_files.locate(self.tokenizer_path, weights=False)
        if any((folder / name).is_file() for name in TOKENIZER_FILES):
            return folder
        fix = "Give that of mT5, such as google/mt5-large: --tokenizer-path, tokenizer_path=..."
        raise ModelLoadError("needs a tokenizer (mT5)", where=f"{self.name}: {folder}", fix=fix)

    def _warn_of_mode(self, version: Version) -> None:
        """Warns where a model of MetricX-23 is named as one for the other metric."""
        named = NAME.findall(self.named("model"))
        if version != 23 or not named:
            return
        is_qe = bool(named[-1][1])
        if is_qe == self.reads_reference:
            other = "metricx-qe" if is_qe else "metricx"
            model = self.named("model")
            warn(
                f"{model}: by its name it is a model for {other}, used as {self.name}", stacklevel=4
            )


@settings
class MetricX(MetricXMetric):
    """Mistakes of a hypothesis, given a reference (and the source: MetricX-24).

    Args:
        context_from: whose target context a hypothesis is read in; if not given, the reference's in `score`, and its
            own in whole documents that are compared pairwise.
    """

    context_from: Literal["reference", "hypothesis"] | None = None
    reads_reference: ClassVar[bool] = True
    name: ClassVar[str] = "metricx"
    info: ClassVar[Info] = Info(
        summary="mistakes of a translation, by regression of an encoder-decoder",
        papers=("juraska2023metricx", "juraska2024metricx"),
        needs_source=True,
        higher_is_better=False,
        bounds=(0, 25),
        bucketed=True,
        costly_pairs=True,
    )


@settings
class MetricXQE(MetricXMetric):
    """Mistakes of a hypothesis, given the source alone.

    Args:
        model: the folder of a released model, or a name on the hub; of MetricX-23, one with -qe- in its name.
    """

    reads_reference: ClassVar[bool] = False
    name: ClassVar[str] = "metricx-qe"
    info: ClassVar[Info] = Info(
        summary="mistakes of a translation without a reference, by regression of an encoder-decoder",
        papers=("juraska2023metricx", "juraska2024metricx"),
        needs_source=True,
        needs_references=False,
        higher_is_better=False,
        bounds=(0, 25),
        bucketed=True,
    )


class MetricXScorer(JoinedScorer):
    """Represents a text by its ids; compares by the network.

    Args:
        metric: the metric.
        network: a `T5Regression`.
        parts: what it reads.
        batch_tokens: tokens of one batch.
    """

    def __init__(
        self, metric: ModelMetric, network: Any, parts: InputParts, batch_tokens: int
    ) -> None:
        super().__init__(metric, network, parts.room, batch_tokens)
        self.network, self.parts = network, parts
        self.special = special_tokens(parts.tokenizer)
        self.reads_source = "source" in parts.parts
        self.reads_reference = "reference" in parts.parts

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids of every window: the sentence behind its context, a blank between sentences."""
        windows = [item.window for item in items]
        texts = [window.encode("utf-8", "replace").decode() for window in windows]
        ids = Ragged.of_rows(self.parts.ids([broken_up(text, self.special) for text in texts]))
        return Reps({"ids": ids}), ids.lengths

    def sequence_lengths(self, lengths: IntArray, block: Block) -> IntArray:
        """One for every pair, or for every hypothesis without references."""
        return self._lengths(lengths, self._rows([block]))

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block, or [H, 1] without references."""
        values = self._values(reps["ids"], self._rows(blocks))
        return by_block(values, blocks) if self.reads_reference else by_hypothesis(values, blocks)

    def _rows(self, blocks: Sequence[Block]) -> dict[Part, IntArray]:
        """The rows of the texts of every sequence of all blocks, [sequences] for each part."""
        hypotheses, sources = hypothesis_rows(blocks)
        rows: dict[Part, IntArray] = {"candidate": hypotheses}
        if self.reads_reference:
            rows["candidate"], rows["reference"] = cell_rows(blocks)
            sources = np.repeat([block.source for block in blocks], [b.cells for b in blocks])
        if self.reads_source:
            rows["source"] = sources
        return rows

    def _lengths(self, lengths: IntArray, rows: dict[Part, IntArray]) -> IntArray:
        """Tokens of every sequence before any cut, [n]; lengths: of all texts, rows: of its texts, [n] each."""
        of_texts = np.sum([lengths[of_part] for of_part in rows.values()], axis=0)
        whole: IntArray = of_texts + self.parts.num_name_tokens
        return whole

    def _values(self, ids: Ragged, rows: dict[Part, IntArray]) -> FloatArray:
        """The paper's number of every sequence, [n]; rows: of its texts, [n] each."""
        lengths = np.minimum(self._lengths(ids.lengths, rows), self.max_tokens)
        run = partial(self._batch, ids, rows)
        batches, places = in_batches(lengths, self.batch_tokens, run)
        raw = np.concatenate(batches)[places]
        return np.clip(raw, LOWEST, HIGHEST)

    def _batch(self, ids: Ragged, rows: dict[Part, IntArray], numbers: IntArray) -> FloatArray:
        """Values, not yet clamped, of some sequences [batch]."""
        sequences = []
        for number in numbers:
            texts = {}
            for part, of_part in rows.items():
                start, end = ids.offsets[of_part[number]], ids.offsets[of_part[number] + 1]
                texts[part] = ids.values[start:end]
            sequences.append(self.parts.sequence(texts))
        scores: FloatArray = self.network.scores(Ragged.of_rows(sequences))
        return scores


class InputParts:
    """Tokenises texts and the names in front of them.

    Args:
        tokenizer: mT5's.
        parts: which texts there are, in order.
        max_tokens: the longest sequence, with the end token that is then taken away.
    """

    def __init__(self, tokenizer: Any, parts: Sequence[Part], max_tokens: int) -> None:
        self.tokenizer = tokenizer
        self.parts = tuple(parts)
        self.room = max_tokens - 1
        self.names = dict(zip(parts, self.ids([f"{part}:" for part in parts]), strict=True))
        self.num_name_tokens = sum(map(len, self.names.values()))

    def ids(self, texts: Sequence[str]) -> list[IntArray]:
        """The ids of texts by themselves, without an end token."""
        if not texts:
            return []
        encoded = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return [np.array(ids, np.int64) for ids in encoded.input_ids]

    def sequence(self, texts: dict[Part, IntArray]) -> IntArray:
        """The whole input, cut to its room, from the ids of its texts."""
        pieces = []
        for part in self.parts:
            pieces += [self.names[part], texts[part]]
        return np.concatenate(pieces)[: self.room]
