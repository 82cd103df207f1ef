"""Reward functions: what trainers call, by a metric here or on a server; failures raise or are None."""

from __future__ import annotations

import json
import math
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest

import discorank
from discorank.integrations.rewards import RewardFunction
from discorank.metrics.errors import InputError, MetricError, ResourceError
from discorank.metrics.mixture import Function

from ..support.proxying import scoring
from ..support.serving import Reply, serving

COMPLETIONS = ["a cat sat", "the dog", "", "dogs"]
REFERENCES = ["a cat sat down", "the dog", "x", ["cats", "dogs and cats"]]
PROMPTS = ["p", "p", "q", "q"]


def faulty(hypothesis: Any, reference: Any) -> float:
    """A number, but for two texts."""
    if hypothesis == "bad":
        raise ValueError("a bad text")
    return float("nan") if "nan" in (hypothesis, reference) else float(len(hypothesis))


def chat(text: Any) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": text}]


def test_rewards_are_scores_and_distances_count_negated() -> None:
    for name, sign in (("chrf", 1), ("ter", -1), ("chrf + 0.5*bleu", 1)):
        expected = (sign * discorank.load_metric(name).score(COMPLETIONS, REFERENCES)).tolist()
        reward = discorank.reward(name)
        assert reward(completions=COMPLETIONS, reference=REFERENCES, prompts=PROMPTS) == expected
        assert all(type(value) is float for value in reward(COMPLETIONS, reference=REFERENCES))


def test_conversations_and_columns_of_other_names() -> None:
    reward = discorank.reward("chrf", reference="target")
    plain = reward(COMPLETIONS, target=REFERENCES)
    assert reward([chat(text) for text in COMPLETIONS], target=REFERENCES) == plain
    parts = [chat([{"type": "text", "text": text}]) for text in COMPLETIONS]
    assert reward(parts, target=REFERENCES, trainer_state=object()) == plain
    assert reward.__name__ == "chrf"


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"references": REFERENCES}, "no column 'reference', found references"),
        ({"reference": "a cat"}, "columns.reference: found 'a cat', expected a list"),
        ({"reference": REFERENCES[:2]}, "expected a list of 4"),
        ({"reference": ["a", "b", None, "d"]}, r"completions\[2\]: reference: found null"),
    ],
)
def test_columns_that_are_missing_say_so(columns: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        discorank.reward("chrf")(COMPLETIONS, **columns)


def test_columns_may_be_arrays_and_nothing_gives_nothing() -> None:
    texts: Any = np.array(["a cat", "dogs"])
    assert discorank.reward("chrf")(texts, reference=texts) == [100.0, 100.0]
    assert discorank.group_reward("chrf")(["a", "a"], prompts=np.array(["p", "p"])) == [100.0] * 2
    assert discorank.reward("chrf")(["a cat"], reference=[[np.str_("a cat")]]) == [100.0]
    assert discorank.reward("chrf")([], reference=[]) == []
    assert discorank.group_reward("chrf")([], prompts=[]) == []
    for size in (1, 2.5, "8"):
        with pytest.raises(InputError, match=r"num_generations: found .* expected a whole number"):
            discorank.group_reward("chrf", num_generations=size)  # type: ignore[arg-type]


def test_what_cannot_be_scored_raises_or_is_none() -> None:
    metric, texts = Function(faulty), ["fine", "bad", "nan", "other"]
    with pytest.raises(MetricError, match=r"completions\[1\].*a bad text"):
        discorank.reward(metric)(texts, reference=["r"] * 4)
    masked = discorank.reward(metric, on_error="mask")
    assert masked(texts, reference=["r"] * 4) == [4.0, None, None, 5.0]
    assert masked(texts, reference=["r", "r", "r", []]) == [4.0, None, None, None]
    with pytest.raises(MetricError, match="solution_str"):
        masked.compute_score("data", "bad", "r")


def test_metrics_that_rewards_cannot_be_of_are_refused() -> None:
    for arguments, match in (
        ({"metric": "comet-qe"}, "Name the column"),
        ({"metric": "chrf", "on_error": "zero"}, "on_error"),
        (
            {"metric": discorank.load_metric("chrf"), "server": "http://localhost"},
            "expected a name",
        ),
        ({"metric": 'bertscore(model="minilm",context=2)'}, "preceding sentences"),
    ):
        with pytest.raises(InputError, match=match):
            discorank.reward(**arguments)
    with pytest.raises(InputError, match="compares no two"):
        discorank.group_reward("comet-qe", source="source")


def test_verl_calls_it_for_one_text() -> None:
    reward = discorank.reward("chrf")
    expected = discorank.load_metric("chrf").score(COMPLETIONS, REFERENCES).tolist()
    one = reward.compute_score(
        data_source="d", solution_str=COMPLETIONS[3], ground_truth=REFERENCES[3], extra_info={}
    )
    assert one == expected[3]


# groups


def matrix(texts: list[str]) -> np.ndarray:
    return discorank.load_metric("chrf").pairwise(texts, texts)


def test_the_reward_of_a_group_is_expected_utility_by_its_equation() -> None:
    texts, others = ["a cat", "a cat sat", "dogs", "a cat"], ["x y", "x"]
    prompts = ["p"] * 4 + ["q"] * 2
    plain = discorank.group_reward("chrf")(completions=texts + others, prompts=prompts)
    assert plain == pytest.approx([*matrix(texts).mean(axis=1), *matrix(others).mean(axis=1)])
    left_out = discorank.group_reward("chrf", leave_one_out=True)(texts, prompts=["p"] * 4)
    u = matrix(texts)
    assert left_out == pytest.approx((u.sum(axis=1) - np.diag(u)) / 3)


def test_groups_are_neighbours_with_one_prompt_and_must_be_whole() -> None:
    texts = ["a", "b", "ab", "abc"]
    fours = discorank.group_reward("chrf")(texts, prompts=["p"] * 4)
    twos = discorank.group_reward("chrf", num_generations=2)(texts, prompts=["p"] * 4)
    assert twos != fours
    assert twos[:2] == discorank.group_reward("chrf")(texts[:2], prompts=["p"] * 2)
    conversations = [[{"role": "user", "content": "p"}]] * 4
    assert discorank.group_reward("chrf")(texts, prompts=conversations) == fours
    for prompts, size in ((["p", "p", "p", "q"], None), (["p"] * 4, 3), (["p", "q", "p", "q"], 2)):
        reward = discorank.group_reward("chrf", num_generations=size, on_error="mask")
        with pytest.raises(InputError, match="completions of one prompt"):
            reward(texts, prompts=prompts)


def test_a_group_leaves_out_what_has_no_utility() -> None:
    texts, prompts = ["nan", "fine", "bad", "other"], ["p", "p", "q", "q"]
    reward = discorank.group_reward(Function(faulty), on_error="mask")
    assert reward(texts, prompts=prompts) == [None, None, None, None]
    with pytest.raises(MetricError, match=r"completions\[0\]"):
        discorank.group_reward(Function(faulty))(texts, prompts=prompts)


# servers and processes


def test_a_server_gives_the_same_rewards() -> None:
    with scoring("bleu", "chrf") as (_, url):
        served = discorank.reward("chrf", server=url)
        here = discorank.reward("chrf")
        assert served(COMPLETIONS, reference=REFERENCES) == here(COMPLETIONS, reference=REFERENCES)
        again = pickle.loads(pickle.dumps(served))
        assert again(COMPLETIONS, reference=REFERENCES) == here(COMPLETIONS, reference=REFERENCES)


def test_a_text_that_a_server_does_not_take_costs_itself_alone() -> None:
    long, no_json = "a" * 21, "\ud800"
    texts = [long, "a cat", no_json, "a dog", "dogs", "cats"]
    references = ["a", "a cat", "a", "the dog", "dogs", "dogs"]
    here = discorank.reward("chrf")(texts, reference=references)
    with scoring("chrf", max_text_characters=20, max_pairs=4) as (_, url):
        reward = discorank.reward("chrf", server=url, on_error="mask")
        assert reward(texts, reference=references) == [None, here[1], None, *here[3:]]
        scores = discorank.Scores(url, "chrf")
        refused: tuple[tuple[Any, Any, str], ...] = (
            (["a", long, "b"], ["a", "a", "b"], r"hypotheses\[1\].*21 characters"),
            (["a", no_json, "b"], ["a", "a", "b"], r"hypotheses\[1\].*JSON"),
            (["a"] * 256, ["a"] * 600, "600 references for 256"),
            (["a", "b"], ["a", math.nan], r"references|JSON"),
        )
        for hypotheses, given, found in refused:
            with pytest.raises(InputError, match=found):
                scores.score(hypotheses, given)
        with pytest.raises(InputError, match="base_url"):
            discorank.Scores(None)  # type: ignore[arg-type]


def test_a_server_that_is_gone_raises_whatever_is_masked() -> None:
    with scoring("chrf") as (_, url):
        pass
    for on_error in ("raise", "mask"):
        server = discorank.Scores(url, "chrf", retries=0)
        reward = discorank.reward("chrf", server=server, on_error=on_error)
        with pytest.raises(ResourceError):
            reward(COMPLETIONS, reference=REFERENCES)


def _replied(body: Any) -> Any:
    with serving(lambda seen, number: Reply(body)) as server:
        return discorank.Scores(server.url).outcomes(["a", "b"], ["r", "r"])


@pytest.mark.parametrize(
    "data",
    [
        [],
        [{"index": 0, "score": 1.0}],
        [{"index": 0, "score": 1.0}, {"index": 0, "score": 2.0}],
        [{"index": 0, "score": 1.0}, {"index": 2, "score": 2.0}],
        [{"index": 0, "score": 1.0}, 3],
    ],
)
def test_replies_that_are_no_scores_are_errors(data: Any) -> None:
    with pytest.raises(InputError, match="expected results with the indices 0 to 1"):
        _replied({"data": data})


def test_numbers_that_are_none_are_errors_in_their_places() -> None:
    for broken in (None, "1", True, 10**400):
        first, second = _replied(
            {"data": [{"index": 1, "score": 2.5}, {"index": 0, "score": broken}]}
        )
        assert isinstance(first, MetricError)
        assert second == 2.5
    body = json.dumps({"data": [{"index": 0, "score": math.nan}, {"index": 1, "score": 1}]})
    first, _ = _replied(body.encode())
    assert isinstance(first, MetricError)


def _rewarded(reward: RewardFunction, results: Any) -> None:
    results.put(reward(COMPLETIONS, reference=REFERENCES))


def test_every_process_loads_its_own_metric() -> None:
    reward = discorank.reward("chrf")
    expected = reward(COMPLETIONS, reference=REFERENCES)
    assert pickle.loads(pickle.dumps(reward))(COMPLETIONS, reference=REFERENCES) == expected
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_rewarded, args=(reward, results))
    process.start()
    assert results.get(timeout=600) == expected
    process.join()
