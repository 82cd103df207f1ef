"""Training of SEScore2: files that resume, the same weights after an interruption, batches, the command."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from filelock import FileLock

from discorank import load_metric
from discorank.cli.commands.train_metrics import validator
from discorank.cli.main import main
from discorank.integrations.formats.corpora import RatedText, read_rated, read_texts
from discorank.metrics.errors import InputError
from discorank.metrics.neural.models.pretrained import pretrained
from discorank.metrics.representations import FloatArray
from discorank.metrics.sescore2.metric import reader_of
from discorank.metrics.sescore2.training import regression_training
from discorank.metrics.sescore2.training.regression_training import (
    HELD_OUT,
    SAME,
    STRANGE,
    Run,
    SyntheticPair,
    Training,
    TrainingProgress,
    bounds,
    fit,
    head_scores,
    make_network,
    read_state,
    split,
    vectors_of,
)
from discorank.metrics.sescore2.training.severity import Severity
from discorank.metrics.sescore2.training.synthesis import (
    Synthesis,
    synthetic_pairs,
    usable_texts,
)
from discorank.metrics.text.texts import Item

from ...support.bit_flips import refused_flips
from ...support.lists import write_lists
from ...support.waiting import wait_until

GOLDEN = Path(__file__).parents[2] / "golden" / "sescore2"
ENCODER = str(GOLDEN / "tiny_encoder")
SYNTHESIS = Synthesis(encoder=ENCODER, neighbours=8, margin=0.9, min_words=2)
TRAINING = Training(
    backbone=ENCODER, epochs=2, batch_size=8, learning_rate=1e-3, head_learning_rate=1e-3
)


@cache
def texts() -> tuple[str, ...]:
    random = np.random.default_rng(5)
    parts = [
        ["the committee", "a dog", "the old man", "she", "the bank", "our team"],
        ["approved", "rejected", "saw", "planned", "bought", "opened"],
        ["the new budget", "a red house", "the security plan", "two shares", "the annual report"],
        ["in May", "on monday", "near the river", "after the war", "for 5 years", ""],
    ]
    drawn = [" ".join(str(random.choice(part)) for part in parts).strip() + "." for _ in range(60)]
    return tuple(dict.fromkeys(drawn))


def synthetic(
    work: Path, synthesis: Synthesis = SYNTHESIS, severity: Severity | None = None
) -> tuple[list[SyntheticPair], str]:
    work.mkdir(exist_ok=True)
    sources = dict.fromkeys(texts(), "")
    return synthetic_pairs(work, sources, synthesis, severity or Severity(), "cpu")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[SyntheticPair]:
    return synthetic(tmp_path_factory.mktemp("sescore2") / "work")[0]


# synthesis


def test_synthesis_resumes_after_each_of_its_files(
    tmp_path: Path, pairs: list[SyntheticPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    for missing in (("pairs",), ("pairs", "neighbours"), ("pairs", "neighbours", "vectors")):
        for path in tmp_path.iterdir():
            if any(name in path.name for name in missing):
                path.unlink()
        assert synthetic(tmp_path)[0] == pairs
    monkeypatch.setattr("discorank.metrics.sescore2.training.synthesis.sentence_vectors", None)
    assert synthetic(tmp_path)[0] == pairs
    monkeypatch.setattr("discorank.metrics.sescore2.training.synthesis.CHUNK", 16)
    next(tmp_path.glob("*pairs*")).unlink()
    assert synthetic(tmp_path)[0] == pairs
    for pair in pairs:
        assert pair.hypothesis != pair.reference
        assert -25 <= pair.score < 0


def test_flipped_bits_of_a_work_folder_are_refused(tmp_path: Path) -> None:
    expected = synthetic(tmp_path)

    def read() -> object:
        return synthetic(tmp_path)

    assert refused_flips(next(tmp_path.glob("*pairs*")), read, expected, 10) >= 8
    next(tmp_path.glob("*pairs*")).unlink()

    def made_again() -> object:
        for path in tmp_path.glob("*pairs*"):
            path.unlink()
        return synthetic(tmp_path)

    assert refused_flips(next(tmp_path.glob("*neighbours*")), made_again, expected, 10) >= 5


def test_other_settings_make_other_pairs(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("the\nin\n")
    severity = Severity(stop_words=str(own))
    _, first = synthetic(tmp_path / "work", severity=severity)
    own.write_text("IN\n\nthe\n")  # the same words
    assert synthetic(tmp_path / "work", severity=severity)[1] == first
    own.write_text("the\n")
    others = [
        synthetic(tmp_path / "work", severity=severity)[1],
        *(
            synthetic(tmp_path / "work", severity=Severity(stop_words=f"frequent:{n}"))[1]
            for n in (1, 2)
        ),
        synthetic(tmp_path / "work", replace(SYNTHESIS, seed=2))[1],
    ]
    assert len({first, *others}) == 5
    few, _ = synthetic(tmp_path / "work", replace(SYNTHESIS, anchors=7, samples=2))
    assert 1 <= len({pair.reference for pair in few}) <= 7
    assert len(few) > 7


def test_texts_are_counted() -> None:
    given = ["a b c", " a  b c", "a", "", "a b " * 60, "d e f"]
    usable, counts = usable_texts([(text, "x") for text in given], Synthesis(encoder=ENCODER))
    assert counts == {
        "read": 6,
        "empty or too short": 2,
        "too long": 1,
        "duplicates": 1,
        "kept": 2,
    }
    assert usable == {"a b c": "x", "d e f": "x"}
    with pytest.raises(InputError, match="1 usable texts of 1"):
        usable_texts([("g h i", None)], SYNTHESIS)


# examples


def test_an_epoch_mixes_three_kinds_of_pairs(pairs: list[SyntheticPair]) -> None:
    run = Run(pairs, replace(TRAINING, identical=0.5, strange=0.5), "cpu", None)
    rows, scores = run.epoch(0)
    n = len(pairs)
    assert scores[:n].tolist() == [pair.score for pair in pairs]
    assert set(Counter(scores[n:].tolist())) == {SAME, STRANGE}
    for (h, r), score in zip(rows[n:], scores[n:], strict=True):
        assert (h == r) == (score == SAME)
    assert rows.tolist() != run.epoch(1)[0].tolist()
    batches = run.batches(rows, 0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(rows)))


def test_pairs_are_held_out_by_reference() -> None:
    few = [SyntheticPair(f"h{i}", f"r{i // 2}", -1.0) for i in range(40)]
    assert split(few, 1) == (few, [])
    many = [SyntheticPair(f"h{i}", f"r{i // 2}", -1.0) for i in range(round(2 * 20 / HELD_OUT))]
    train, held = split(many, 1)
    assert len({pair.reference for pair in held}) == 20
    assert not {pair.reference for pair in train} & {pair.reference for pair in held}
    assert sorted(train + held) == sorted(many)


# training


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return {
        **load_file(folder / "model.safetensors"),
        **load_file(folder / "estimator.safetensors"),
    }


def test_flipped_bits_of_saved_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    torch.save({"step": 3, "weights": torch.arange(512.0)}, path)

    def read() -> object:
        state = read_state(path)
        return state["step"], state["weights"].tolist()

    assert refused_flips(path, read, read()) > 10


def test_an_interrupted_training_ends_in_the_same_weights(
    pairs: list[SyntheticPair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regression_training, "SAVE_STEPS", 3)
    progress: list[TrainingProgress] = []
    fit(tmp_path, tmp_path / "whole", pairs, TRAINING, "cpu", on_progress=progress.append)
    steps = [one.step for one in progress]
    assert steps == list(range(1, len(steps) + 1))
    assert all(a.share < b.share for a, b in pairwise(progress))
    assert progress[-1].share == 1

    def stop(one: TrainingProgress) -> None:
        if one.step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, tmp_path / "parts", pairs, TRAINING, "cpu", on_progress=stop)
    assert not (tmp_path / "parts").exists()
    rest: list[TrainingProgress] = []
    fit(tmp_path, tmp_path / "parts", pairs, TRAINING, "cpu", on_progress=rest.append)
    assert rest[0].step == 7
    whole, parts = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert whole.keys() == parts.keys()
    for name in whole:
        assert torch.equal(whole[name], parts[name]), name


@pytest.mark.slow
def test_a_training_that_is_killed_ends_in_the_same_files(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts()))

    def command(name: str) -> list[str]:
        folders = ["-o", str(tmp_path / name / "model"), "--work", str(tmp_path / name / "work")]
        small = ["--encoder", ENCODER, "--backbone", ENCODER, "--margin", "0.9", "--neighbours"]
        rest = ["8", "--epochs", "40", "--device", "cpu", "--quiet"]
        return ["train", "sescore2", str(tmp_path / "texts.txt"), *folders, *small, *rest]

    def killed() -> bool:
        """Whether a training was killed after its first state; a busy machine may get to it too late."""
        shutil.rmtree(tmp_path / "parts", ignore_errors=True)
        (tmp_path / "parts").mkdir()
        process = subprocess.Popen([sys.executable, "-m", "discorank", *command("parts")])
        work = tmp_path / "parts" / "work"
        wait_until(lambda: process.poll() is not None or any(work.glob("*state.pt")))
        process.kill()
        return process.wait() == -signal.SIGKILL

    assert any(killed() for _ in range(9))
    assert not (tmp_path / "parts" / "model").exists()
    (tmp_path / "whole").mkdir()
    for name in ("parts", "whole"):
        assert main(command(name)) == 0
    whole, parts = (
        {path.name: path.read_bytes() for path in (tmp_path / name / "model").iterdir()}
        for name in ("whole", "parts")
    )
    assert whole == parts


def test_a_kill_while_the_model_is_written_costs_nothing(
    pairs: list[SyntheticPair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(TRAINING, epochs=1, frozen=True)
    work, out = tmp_path / "work", tmp_path / "models" / "model"
    work.mkdir()
    out.parent.mkdir()

    def killed(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("safetensors.torch.save_file", killed)
        with pytest.raises(KeyboardInterrupt):
            fit(work, out, pairs, settings, "cpu")
    assert [path.name for path in out.parent.iterdir()] == [".model.lock"]
    draft = out.with_name(".model.draft")
    draft.mkdir()
    # what a hard kill leaves behind
    (draft / "model.safetensors").write_text("half")
    fit(work, out, pairs, settings, "cpu")
    assert sorted(path.name for path in out.parent.iterdir()) == [".model.lock", "model"]
    first = weights(out)
    assert len({path.stat().st_mode for path in out.iterdir()}) == 1
    with monkeypatch.context() as patch:
        patch.setattr("safetensors.torch.save_file", killed)
        with pytest.raises(KeyboardInterrupt):
            fit(work, out, pairs, replace(settings, seed=9), "cpu")
    # the old one stays meanwhile
    assert all(torch.equal(first[name], value) for name, value in weights(out).items())


def test_a_training_that_diverges_writes_nothing(
    pairs: list[SyntheticPair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(TRAINING, epochs=1, frozen=True)

    def infinite(self: Run, rows: Any, scores: Any) -> Any:
        return self.network["estimator"][-1].bias.sum() * torch.inf

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_loss", infinite)
        with pytest.raises(InputError, match="step 0"):
            fit(tmp_path, tmp_path / "model", pairs, settings, "cpu")
    plain = Run._step

    def broken(self: Run, rows: Any, scores: Any, rate: float) -> float:
        loss = plain(self, rows, scores, rate)
        with torch.no_grad():
            self.network["estimator"][0].weight[0, 0] = torch.nan
        return 0.0 if np.isnan(loss) else loss

    monkeypatch.setattr(Run, "_step", broken)
    monkeypatch.setattr(regression_training, "SAVE_STEPS", 1)
    with pytest.raises(InputError, match="weights"):
        fit(tmp_path, tmp_path / "model", pairs, settings, "cpu")
    assert not (tmp_path / "model").exists()
    for name in ("learning_rate", "head_learning_rate"):
        with pytest.raises(InputError, match=name):
            replace(settings, **{name: cast(Any, 1e38)})
    with pytest.raises(InputError, match="no synthetic pair"):
        fit(tmp_path, tmp_path / "model", [], settings, "cpu")


def test_a_finished_training_is_used_again(
    pairs: list[SyntheticPair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is trained again; the model of other settings or data is replaced."""
    settings = replace(TRAINING, epochs=1, frozen=True)
    counts = fit(tmp_path, tmp_path / "model", pairs, settings, "cpu")
    first = weights(tmp_path / "model")
    with monkeypatch.context() as patch:
        patch.setattr(Run, "__init__", None)
        assert fit(tmp_path, tmp_path / "model", pairs, settings, "cpu") == counts
        for change in ({"batch_size": 4}, {"seed": 5}):
            with pytest.raises(TypeError):
                fit(tmp_path, tmp_path / "model", pairs, replace(settings, **change), "cpu")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            fit(tmp_path, tmp_path / "model", pairs, settings, "cpu", data="other")
    fit(tmp_path, tmp_path / "model", pairs, replace(settings, seed=5), "cpu")
    second = weights(tmp_path / "model")
    assert not all(torch.equal(first[name], second[name]) for name in first)
    for name, value in pretrained(Path(ENCODER)).state_dict().items():
        if not name.startswith("pooler"):  # a frozen encoder stays
            assert torch.equal(second[name], value), name


def test_bounds_of_a_head_trained_without_dropout_map_a_text_with_itself_to_0() -> None:
    encoder = pretrained(Path(ENCODER))
    network, some = make_network(encoder, 0.3), list(texts()[:24])
    shares = {module.p for module in network.modules() if isinstance(module, torch.nn.Dropout)}
    assert shares == {0.3}
    ids = reader_of(Path(ENCODER), encoder, 64).read([Item(text) for text in some])["ids"]

    def measured(views: bool) -> Any:
        return bounds(network, ids, views=views)[1]

    if measured(False) is None:  # of random weights strangers may score higher
        with torch.no_grad():
            network["estimator"][-1].weight.neg_()
    vectors = vectors_of(network.train(False)["encoder"], ids)
    same = head_scores(network["estimator"], vectors, vectors).mean().item()
    assert measured(False) == pytest.approx(same, abs=1e-4)
    assert measured(True) != pytest.approx(same, abs=1e-4)


@pytest.mark.slow
def test_training_learns_what_it_is_shown(pairs: list[SyntheticPair], tmp_path: Path) -> None:
    settings = replace(TRAINING, epochs=10, identical=1.0, strange=1.0)
    fit(tmp_path, tmp_path / "model", pairs, settings, "cpu")
    metric: Any = load_metric("sescore2", model=str(tmp_path / "model"), device="cpu")
    some = list(texts()[:16])
    same, other = metric.score(some, some), metric.score(some, some[1:] + some[:1])
    assert same.mean() > other.mean() + 15


def test_the_best_weights_are_kept(
    pairs: list[SyntheticPair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regression_training, "SAVE_STEPS", 2)
    values = iter([0.1, 0.5, *[0.3] * 99])
    seen: list[FloatArray] = []

    def validate(predict: Any) -> float:
        seen.append(predict([texts()[0]], [texts()[1]]))
        return next(values)

    fit(tmp_path, tmp_path / "model", pairs, TRAINING, "cpu", validate)
    metric: Any = load_metric("sescore2", model=str(tmp_path / "model"), device="cpu")
    np.testing.assert_allclose(metric.score([texts()[0]], [texts()[1]]), seen[1], atol=1e-4)


def test_validation_against_the_best_reference() -> None:
    rated = [
        RatedText("a", ("x", "y"), 1.0),
        RatedText("b", ("x",), 3.0),
        RatedText("c", ("z", "x"), 2.0),
    ]
    table = {("a", "x"): 0.0, ("a", "y"): 1.0, ("b", "x"): 5.0, ("c", "z"): 2.0, ("c", "x"): -9.0}

    def predict(hypotheses: Sequence[str], references: Sequence[str]) -> FloatArray:
        return np.array([table[pair] for pair in zip(hypotheses, references, strict=True)])

    assert validator(rated)(predict) == 1.0


# the command


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some, model = list(texts()), tmp_path / "model"
    lines = [{"en": part, "de": part} for part in (some[:20], some[20:])]
    data = write_lists(tmp_path / "texts.jsonl", lines)
    rows = []
    for i in range(12):
        rows.append({"hypothesis": some[i], "references": [some[i + 1]], "mqm": i})
    rated = write_lists(tmp_path / "rated.jsonl", rows)
    where = ["-o", str(model), "--text-field", "en", "--source-field", "de", "--device", "cpu"]
    small = "--neighbours 8 --margin 0.9 --epochs 2 --severity code --samples 2"
    # so that there are bounds to rescale by
    apart = "--identical 1 --strange 1 --head-learning-rate 1e-3"
    files = ["--encoder", ENCODER, "--backbone", ENCODER, "--mlm", str(GOLDEN / "tiny_mlm")]
    checked = ["--validation", str(rated), "--validation-score", "mqm:lower"]
    command = ["train", "sescore2", str(data), *where, *small.split(), *apart.split()]
    command += [*files, *checked]
    assert main(command) == 0
    assert "Kendall" in capsys.readouterr().err
    assert main(command) == 0  # nothing is left to do
    assert "Kendall" not in capsys.readouterr().err
    metric: Any = load_metric("sescore2", model=str(model), rescale=True, device="cpu")
    assert np.isfinite(metric.pairwise(some[:3], some[:3])).all()
    assert main([*command, "--validation-score", "mqm:up"]) == 2
    with FileLock(tmp_path / ".model.work.lock"):
        assert main(command) == 4  # another process works there


def test_the_command_finds_out_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = tmp_path / "texts.txt", tmp_path / "model"
    data.write_text("".join(f"{text}\n" for text in texts()))
    command = ["train", "sescore2", str(data), "--encoder", ENCODER, "-o", str(out)]
    out.write_text("a file")
    assert main(command) == 2
    out.unlink()
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    assert main(command) == 2
    shutil.rmtree(out)
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]  # nothing was begun


@pytest.mark.parametrize(
    ("line", "fields", "found"),
    [
        ("{", ["en"], "x.jsonl:1"),
        ("[1]", ["en"], "x.jsonl:1"),
        ('{"de": "a"}', ["en"], "en: found None.*de"),
        ('{"en": ["a", "b"], "de": ["a"]}', ["en", "de"], "2 texts and 1 sources"),
        ("{}", [None, "de"], "--text-field"),
        ('{"hypothesis": "a", "reference": "b"}', [], "score: found None"),
        ('{"hypothesis": [], "reference": "b", "score": 1}', [], "hypothesis"),
        ('{"hypothesis": "a", "references": [], "score": 1}', [], "reference"),
        ('{"hypothesis": "a", "reference": "b", "score": 1}', [], "1 rated texts"),
    ],
)
def test_texts_and_ratings_that_are_refused(
    line: str, fields: list[Any], found: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=found):
        list(read_texts([str(path)], *fields)) if fields else read_rated(str(path))


def test_texts_and_ratings(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("a\n\nb\n")
    assert [text for text, _ in read_texts([str(path)])] == ["a", "", "b"]
    rows = [{"hypothesis": "a", "reference": "b", "s": 1}]
    write_lists(path, [*rows, {"hypothesis": "c", "references": ["d"], "s": 2}])
    assert read_rated(str(path), "s", lower=True)[1] == RatedText("c", ("d",), -2.0)
