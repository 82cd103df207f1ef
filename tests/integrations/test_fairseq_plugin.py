"""Choosing inside fairseq: with stand-ins for its parts, and with a real tiny model where it is installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import discorank
from discorank.integrations.fairseq import hub as hub_interface
from discorank.integrations.fairseq.task import Chooser, ChoosingTask, read_decider
from discorank.integrations.formats.open_lists import open_lists
from discorank.integrations.generation.generator import Prompt
from discorank.metrics.errors import InputError
from discorank.rerank.lists import Candidate, CandidateList
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.reranker import Reranker

from ..support.fairseq_hub import Hub

GOLDEN = Path(__file__).parents[1] / "golden" / "fairseq"
NEEDS_FAIRSEQ = [
    pytest.mark.fairseq,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(find_spec("fairseq") is None, reason="fairseq is not installed"),
]


def candidate_list(*texts: str) -> CandidateList:
    return CandidateList("0", tuple(Candidate(text, -1.0 - i) for i, text in enumerate(texts)))


# the order


def test_all_candidates_come_in_the_order_of_their_texts() -> None:
    given = candidate_list("zzz", "a b c d", "a b c e", "zzz", "a b c d", "a b c d")
    (order,) = Chooser(MBRDecoder(utility="chrf")).order([given])
    assert order == [1, 4, 5, 2, 0, 3]
    assert list(Chooser(MBRDecoder(utility="chrf"), keep=2).order([given, given])) == [
        [1, 2],
        [1, 2],
    ]
    # the best copies
    assert list(Chooser(Reranker(features={"logprob": -1.0}), keep=9).order([given])) == [[5, 3, 2]]


def test_what_a_shortlist_leaves_out_is_not_lost() -> None:
    given = candidate_list("a b c d", "q", "a b c e", "zzz", "a b c f")
    chooser = Chooser(MBRDecoder(utility="bleu", shortlist="chrf", top_k=2))
    (order,) = chooser.order([given])
    assert sorted(order) == [0, 1, 2, 3, 4]
    assert order.index(1) < order.index(3)


def test_deciders_are_named_by_a_utility_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "mbr.yaml").write_text("utility: chrf\nweights: logprob\n")
    (tmp_path / "rerank.yaml").write_text("features: {'field:score': 1, length: 0.1}\n")
    assert read_decider("chrf + bleu", None) == MBRDecoder(utility="chrf + bleu")
    assert read_decider(None, str(tmp_path / "mbr.yaml")) == MBRDecoder(
        utility="chrf", weights="logprob"
    )
    assert read_decider(None, str(tmp_path / "rerank.yaml")) == Reranker(
        features={"field:score": 1, "length": 0.1}
    )
    for utility, config in ((None, None), ("chrf", "x.yaml")):
        with pytest.raises(
            InputError, match="--discorank-utility, --discorank-config: give one of them"
        ):
            read_decider(utility, config)


def test_what_cannot_work_in_batches_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"a metric with context.*discorank decode LOG --from fairseq --documents"
    ):
        Chooser(MBRDecoder(utility='doc-bertscore(model="x")'))
    with pytest.raises(InputError, match="keep: found 0, expected at least 1"):
        Chooser(MBRDecoder(utility="chrf"), keep=0)


# the task, with stand-ins


class Words:
    """A dictionary of words, as far as the task uses one."""

    def __init__(self, *symbols: str) -> None:
        self.symbols = ["<pad>", "</s>", *symbols]

    def pad(self) -> int:
        return 0

    def string(
        self, tokens: Any, symbol: str | None = None, extra_symbols_to_ignore: Any = None
    ) -> str:
        skipped = {1, *(extra_symbols_to_ignore or ())}
        text = " ".join(self.symbols[i] for i in tokens.tolist() if i not in skipped)
        return text.replace(symbol, "") if symbol else text


class Joining:
    def decode(self, text: str) -> str:
        return text.replace("@@ ", "")


class BaseTask:
    """What the task gets from fairseq."""

    def build_bpe(self, args: Any) -> Any:
        return args

    def build_tokenizer(self, args: Any) -> Any:
        return args

    def inference_step(
        self, generator: Any, models: Any, sample: Any, prefix_tokens: Any = None
    ) -> Any:
        assert models == "models"
        return generator.hypotheses


class Task(ChoosingTask, BaseTask):
    def __init__(self, target: Words, **options: Any) -> None:
        unset = dict.fromkeys(("utility", "config", "allow_code", "keep", "post_process"))
        self.cfg = SimpleNamespace(
            **{f"discorank_{key}": value for key, value in {**unset, **options}.items()}
        )
        self.source_dictionary, self.target_dictionary = Words("quelle"), target


def hypothesis(tokens: list[int], score: float) -> dict[str, Any]:
    return {
        "tokens": torch.tensor([*tokens, 1]),
        "score": score,
        "positional_scores": torch.tensor([score, score]),
    }


def step(task: Task, *sentences: list[list[int]]) -> list[list[list[int]]]:
    hypotheses = [
        [hypothesis(tokens, -1.0 - i) for i, tokens in enumerate(nbest_lists)]
        for nbest_lists in sentences
    ]
    generator = SimpleNamespace(hypotheses=hypotheses, eos=1)
    sample = {"net_input": {"src_tokens": torch.tensor([[0, 2, 1]] * len(sentences))}}
    nbest_lists = task.inference_step(generator, "models", sample, prefix_tokens=None)
    return [[one["tokens"].tolist()[:-1] for one in hypotheses] for hypotheses in nbest_lists]


def test_the_task_reorders_and_replaces_lists() -> None:
    sentences = ([[4], [2, 3], [2, 3, 3], [2, 3]], [[2]])
    reordered = step(Task(Words("alpha", "beta", "zz"), utility="chrf"), *sentences)
    texts = ["zz", "alpha beta", "alpha beta beta", "alpha beta"]
    ranking = discorank.decode(texts, utility="chrf").ranking
    assert [place.text for place in ranking] == ["alpha beta beta", "alpha beta", "zz"]
    assert reordered == [[[2, 3, 3], [2, 3], [2, 3], [4]], [[2]]]
    kept = step(Task(Words("alpha", "beta", "zz"), utility="chrf", keep=1), *sentences)
    assert kept == [[[2, 3, 3]], [[2]]]


def test_the_task_gives_sources_and_natural_log_probabilities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[CandidateList] = []

    def order(self: Chooser, lists: list[CandidateList]) -> Iterator[list[int]]:
        seen.extend(lists)
        return iter([[0]] * len(lists))

    monkeypatch.setattr(Chooser, "order", order)
    step(Task(Words("alpha"), utility="chrf"), [[2], [2, 2]])
    assert seen[0].source == "quelle"
    assert seen[0].candidates[1] == Candidate("alpha alpha", -4.0, {"score": -2.0})


def test_subwords_are_joined_or_refused() -> None:
    words = Words("al@@", "pha", "alb", "al")
    sentences = [[4], [5], [2, 3]]
    with pytest.raises(
        InputError, match=r"--discorank-post-process: the dictionary has subwords .*Give --bpe"
    ):
        step(Task(words, utility="chrf"), sentences)
    assert step(Task(words, utility="chrf", post_process="none"), sentences) != []
    joined = step(Task(words, utility="chrf", post_process="@@ "), sentences)
    task = Task(words, utility="chrf")
    task.build_bpe(Joining())
    task.build_tokenizer(None)
    assert step(task, sentences) == joined


# the hub interface, with a stand-in


def test_the_hub_interface_gives_lists() -> None:
    hub = Hub()
    prompts: list[str | Prompt] = ["abc", Prompt("p", "de", "quelle", "d", 3)]
    one, two = hub_interface.candidate_lists(hub, prompts, 2, seed=5, sampling=True)
    assert (one.id, one.source, two.id, two.source, two.document, two.position) == (
        "0",
        "abc",
        "p",
        "quelle",
        "d",
        3,
    )
    assert one.candidates == (
        Candidate("abc", -0.75, {"score": -0.3}),
        Candidate("cab", -0.75, {"score": -0.3}),
    )
    assert hub.calls[0].items() >= {"beam": 2, "nbest": 2, "sentences": 2, "sampling": True}.items()


def test_the_hub_interface_streams_and_seeds_without_touching_the_state() -> None:
    hub, before = Hub(), torch.random.get_rng_state()
    for _ in range(2):
        assert len(list(hub_interface.candidate_lists(hub, map(str, range(40)), 1, seed=5))) == 40
    assert torch.equal(torch.random.get_rng_state(), before)
    assert [call["sentences"] for call in hub.calls] == [32, 8, 32, 8]
    draws = [call["draw"] for call in hub.calls]
    assert draws[:2] == draws[2:]
    assert draws[0] != draws[1]


def test_the_hub_interface_says_what_is_wrong() -> None:
    with pytest.raises(InputError, match="num_candidates: found 0"):
        list(hub_interface.candidate_lists(Hub(), ["a"], 0))
    with pytest.raises(
        InputError, match=r"fairseq: 1 lists for 2 texts\. Leave skip_invalid_size_inputs out"
    ):
        list(hub_interface.candidate_lists(Hub(lose=1), ["a", "b"]))


def test_the_folder_for_user_dir_is_printed() -> None:
    command = [sys.executable, "-m", "discorank.integrations.fairseq"]
    folder = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert (Path(folder) / "__init__.py").is_file()
    assert Path(folder).name == "discorank_fairseq"


# with fairseq


def fairseq_interactive(folder: Path, *options: str) -> Path:
    """The log of fairseq-interactive with the task, over the sources of the golden log."""
    with open_lists(GOLDEN / "interactive.nbest.txt", "fairseq") as lists:
        sources = [str(entry.record.source) for entry in lists if entry.record is not None]
    (folder / "sources").write_text("".join(f"{source}\n" for source in sources))
    plugin = subprocess.run(
        [sys.executable, "-m", "discorank.integrations.fairseq"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    model = GOLDEN / "model"
    command = [
        sys.executable,
        "-m",
        "fairseq_cli.interactive",
        str(model),
        "--path",
        f"{model}/checkpoint_best.pt",
    ]
    command += [
        "--source-lang",
        "en",
        "--target-lang",
        "de",
        "--input",
        str(folder / "sources"),
        "--cpu",
    ]
    command += [
        "--user-dir",
        plugin,
        "--task",
        "discorank_translation",
        "--beam",
        "5",
        "--nbest",
        "5",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (folder / "log").write_text(done.stdout)
    return folder / "log"


def read(path: Path) -> list[CandidateList]:
    with open_lists(path, "fairseq") as lists:
        return [entry.record for entry in lists if entry.record is not None]


class TestWithFairseq:
    pytestmark = NEEDS_FAIRSEQ

    def test_the_task_reorders_as_decoding_its_log_does(self, tmp_path: Path) -> None:
        plain = read(GOLDEN / "interactive.nbest.txt")
        expected = MBRDecoder(utility="chrf", nbest=None).decode(plain)
        chosen = read(fairseq_interactive(tmp_path, "--discorank-utility", "chrf"))
        for ranking, record, before in zip(expected, chosen, plain, strict=True):
            assert [candidate.text for candidate in record.candidates] == [
                place.text for place in ranking.ranking
            ]
            assert {
                candidate.text: candidate.logprob for candidate in record.candidates
            } == pytest.approx(
                {candidate.text: candidate.logprob for candidate in before.candidates}, abs=1e-3
            )

    def test_the_task_replaces_lists_by_what_a_file_says(self, tmp_path: Path) -> None:
        (tmp_path / "rerank.yaml").write_text("features: {logprob: -1}\n")
        chosen = read(
            fairseq_interactive(
                tmp_path,
                "--discorank-config",
                str(tmp_path / "rerank.yaml"),
                "--discorank-keep",
                "1",
            )
        )
        for record, before in zip(chosen, read(GOLDEN / "interactive.nbest.txt"), strict=True):
            worst = min(before.candidates, key=lambda candidate: candidate.logprob or 0.0)
            assert [candidate.text for candidate in record.candidates] == [worst.text]

    def test_the_hub_interface_gives_what_the_log_holds(self) -> None:
        plain = read(GOLDEN / "interactive.nbest.txt")
        hub = hub_interface.load(GOLDEN / "model", source_lang="en", target_lang="de")
        sources = [str(record.source) for record in plain]
        for record, expected in zip(
            hub_interface.candidate_lists(hub, sources, 5), plain, strict=True
        ):
            for candidate, other in zip(record.candidates, expected.candidates, strict=True):
                assert candidate.text == other.text
                assert candidate.logprob == pytest.approx(other.logprob, abs=1e-3)
                assert candidate.fields["score"] == pytest.approx(other.fields["score"], abs=1e-4)
        sampled = [
            [
                ranking.text
                for ranking in MBRDecoder(utility="chrf").decode(
                    hub_interface.candidate_lists(
                        hub, sources[:3], 8, seed=1, sampling=True, sampling_topp=0.9
                    )
                )
            ]
            for _ in range(2)
        ]
        assert sampled[0] == sampled[1]
