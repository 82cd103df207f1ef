"""Scores from servers: the forms of requests and replies, what is asked how often, and what happens when one fails."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from discorank import Document, Metric, load_metric
from discorank.cli.main import main
from discorank.integrations.server import score_server
from discorank.integrations.server.score_server import scores_in
from discorank.metrics.errors import InputError, ResourceError
from discorank.metrics.registry import load_from_data, papers_of
from discorank.metrics.spec.user_code import NO_CODE, CodeRefusedError
from discorank.metrics.storage.checksums import with_checksum

from ..support.lists import write_lists
from ..support.serving import Reply, Seen, Server, serving
from ..support.waiting import PATIENCE_SECONDS, has_rows, wait_until

KEY = "sk-very-secret-0123456789"
PROBE = ("Hello", "Hello")
Answer = Callable[[Seen, int], Reply]


def value(query: str, document: str) -> float:
    """The model of all servers here."""
    return crc32(f"{query}|{document}".encode()) / 2**31 - 1


def pairs_of(seen: Seen) -> list[tuple[str, str]]:
    """The pairs that a request is for, in its order; without what only shows whether the server works."""
    body = seen.body
    if "text_1" in body:
        pairs = list(zip(body["text_1"], body["text_2"], strict=True))
    else:
        pairs = [(body["query"], text) for text in body.get("documents") or body["texts"]]
    return [] if pairs == [PROBE] else pairs


def asked(server: Server) -> Counter[tuple[str, str]]:
    """How often each pair was asked for."""
    return Counter(pair for seen in server.seen for pair in pairs_of(seen))


def ranked(scores: Sequence[float], name: str) -> list[dict[str, Any]]:
    """Results as rerankers give them: the best first."""
    results = [{"index": i, name: score} for i, score in enumerate(scores)]
    return sorted(results, key=lambda result: -float(result[name]))


def scored(seen: Seen, number: int = 0) -> Reply:
    """vLLM, which has both forms."""
    body = seen.body
    if seen.path == "/v1/score":
        scores = [value(q, d) for q, d in zip(body["text_1"], body["text_2"], strict=True)]
        data = [{"index": i, "object": "score", "score": s} for i, s in enumerate(scores)]
        return Reply({"id": "x", "object": "list", "data": data, "usage": {}})
    return reranked(seen, number)


def reranked(seen: Seen, number: int = 0) -> Reply:
    """Jina or Cohere: no /score; gives the best `top_n`."""
    if seen.path != "/v1/rerank":
        return Reply({"detail": "Not Found"}, 404)
    if "documents" not in seen.body:
        return Reply({"message": "documents: field required"}, 422)
    scores = [value(seen.body["query"], text) for text in seen.body["documents"]]
    results = ranked(scores, "relevance_score")[: seen.body["top_n"]]
    return Reply({"id": "x", "results": results, "meta": {}})


def inferred(seen: Seen, number: int = 0) -> Reply:
    """text-embeddings-inference."""
    if seen.path != "/v1/rerank":
        return Reply(b"", 404)
    if "texts" not in seen.body:
        return Reply({"error": "missing field `texts`", "error_type": "Validation"}, 422)
    scores = [value(seen.body["query"], text) for text in seen.body["texts"]]
    return Reply(ranked(scores, "score"))


SERVERS: dict[str, Answer] = {"score": scored, "rerank": reranked, "tei": inferred}


def metric(server: Server | str, name: str = "score-server", **settings: Any) -> Metric:
    url = server if isinstance(server, str) else server.url
    chosen = {
        "backoff_seconds": 0.0,
        "connections": 4,
        "timeout_seconds": PATIENCE_SECONDS,
        **settings,
    }
    loaded = load_metric(name, model="m", base_url=url, **chosen)
    assert isinstance(loaded, Metric)
    return loaded


def spec(server: Server | str, name: str = "score-server-qe", **settings: Any) -> str:
    """The same as an argument of a command."""
    url = server if isinstance(server, str) else server.url
    chosen = {"backoff_seconds": 0.001, "retries": 1, "base_url": url, **settings}
    rest = ",".join(f"{key}={json.dumps(setting)}" for key, setting in chosen.items())
    return f'{name}(model="m",{rest})'


def lists(n: int, length: int = 20) -> Iterator[dict[str, Any]]:
    """Candidate lists of two candidates each, all texts different."""
    for i in range(n):
        candidates = [f"candidate {i} {j} ".ljust(length, "x") for j in range(2)]
        yield {"id": str(i), "source": f"source {i}", "candidates": candidates}


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# what is asked, and what is read


@pytest.mark.parametrize("form", SERVERS)
@pytest.mark.parametrize("setting", ["auto", "itself"])
def test_every_form_gives_the_same_matrix(form: str, setting: str) -> None:
    """Rerankers put the best first: the index says whose a score is."""
    hypotheses, references = ["a b", "c", "d e f"], ["c", "x y"]
    with serving(SERVERS[form]) as server:
        model = metric(server, form="auto" if setting == "auto" else form)
        matrix = model.pairwise(hypotheses, references)
        again = model.pairwise(hypotheses, references)
    assert matrix.tolist() == [[value(r, h) for r in references] for h in hypotheses]
    assert again.tobytes() == matrix.tobytes()
    assert asked(server) == {(r, h): 1 for r in references for h in hypotheses}
    assert {seen.path for seen in server.seen if pairs_of(seen)} == {
        "/v1/score" if form == "score" else "/v1/rerank"
    }
    assert {seen.body.get("model") for seen in server.seen if pairs_of(seen)} == {
        None if form == "tei" else "m"
    }


def test_the_source_is_the_query_without_references() -> None:
    with serving(scored) as server:
        model = metric(server, "score-server-qe")
        matrix = model.pairwise(["a", "b"], ["unread"], "src")
        scores = model.score(["a", "b"], None, ["s", "t"])
    assert matrix.tolist() == [[value("src", "a")], [value("src", "b")]]
    assert scores.tolist() == [value("s", "a"), value("t", "b")]


def test_documents_are_the_mean_of_their_sentences() -> None:
    with serving(scored) as server:
        (score,) = metric(server).score([Document(["a", "b"])], [Document(["c", "d"])])
    assert score == pytest.approx((value("c", "a") + value("d", "b")) / 2)


def test_the_best_of_several_references_counts() -> None:
    with serving(scored) as server:
        (score,) = metric(server).score(["a"], [["b", "c"]])
    assert score == max(value("b", "a"), value("c", "a"))


def test_half_a_character_is_sent_as_a_question_mark() -> None:
    with serving(scored) as server:
        matrix = metric(server).pairwise(["\ud800", ""], ["a"])
    assert matrix.tolist() == [[value("a", "?")], [value("a", "")]]


def test_requests_are_batches_and_every_pair_is_asked_for_once() -> None:
    hypotheses, references = [f"h{i % 9}" for i in range(12)], [f"r{i}" for i in range(7)]
    with serving(reranked) as server:
        metric(server, batch_pairs=4).pairwise(hypotheses, references)
    assert asked(server) == {(r, f"h{i}"): 1 for r in references for i in range(9)}
    assert Counter(len(pairs_of(seen)) for seen in server.seen if pairs_of(seen)) == {4: 14, 1: 7}
    with serving(scored) as server:
        metric(server, batch_pairs=4).pairwise(hypotheses, references)
    assert Counter(len(pairs_of(seen)) for seen in server.seen if pairs_of(seen)) == {4: 15, 3: 1}


def test_some_requests_are_under_way_at_a_time_and_results_stay_in_order() -> None:
    """The first reply comes last; no more are open than connections."""
    last = threading.Event()

    def answer(seen: Seen, number: int) -> Reply:
        reply = scored(seen)
        if number == 3:
            last.set()
        reply.hold = last if number == 1 else None
        return reply

    with serving(answer) as server:
        model = metric(server, batch_pairs=2, connections=3, retries=0)
        scores = model.score([f"h{i}" for i in range(40)], [f"r{i}" for i in range(40)])
    assert scores.tolist() == [value(f"r{i}", f"h{i}") for i in range(40)]
    assert 1 < server.most_open <= 3


def test_further_keys_stand_in_every_request() -> None:
    with serving(scored) as server:
        metric(server, request='{"truncate_prompt_tokens": 9}').pairwise(["a"], ["b"])
    assert [seen.body["truncate_prompt_tokens"] for seen in server.seen] == [9, 9]


GOOD: dict[str, Any] = {
    "vLLM score": {"data": [{"index": 1, "score": 2}, {"index": 0, "score": -1.5}]},
    "rerank": {"results": [{"index": 1, "relevance_score": 2}, {"index": 0, "score": -1.5}]},
    "Voyage": {"data": [{"index": 1, "relevance_score": 2}, {"index": 0, "relevance_score": -1.5}]},
    "TEI": [{"index": 1, "score": 2, "text": "b"}, {"index": 0, "score": -1.5}],
}


@pytest.mark.parametrize("reply", GOOD.values(), ids=GOOD)
def test_scores_are_read_from_every_reply(reply: Any) -> None:
    assert scores_in(reply, 2) == [-1.5, 2.0]


def two(**second: Any) -> dict[str, Any]:
    return {"results": [{"index": 0, "relevance_score": 1.0}, second]}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({}, r"^server: reply: no list of scores, found \{\}$"),
        ("x", r"^server: reply: no list of scores"),
        ({"data": None}, "no list of scores"),
        ([], "^server: reply: 0 scores for 2 pairs"),
        ({"results": [{"index": 0, "score": 1}]}, r"^server: reply\.results: 1 scores for 2 pairs"),
        (two(index=0, score=1), r"reply\.results\[1\]: index 0, expected each of 0 to 1 once"),
        (two(index=2, score=1), r"\[1\]: index 2, expected"),
        (two(index=-1, score=1), r"\[1\]: index -1, expected"),
        (two(index=True, score=1), r"\[1\]: no index, found"),
        (two(score=1), r"\[1\]: no index, found"),
        (two(index=1), r"\[1\]: no score, found"),
        ({"data": [1, 2]}, r"reply\.data\[0\]: no index, found 1"),
        (two(index=1, score=None), r"\[1\]\.score: found None, expected a finite number"),
        (two(index=1, score=float("nan")), r"\[1\]\.score: found nan, expected a finite"),
        (two(index=1, score="0.5"), r"\[1\]\.score: found '0.5', expected"),
        (two(index=1, relevance_score=10**400), r"\[1\]\.relevance_score: found 1000"),
    ],
)
def test_wrong_answers_say_where(reply: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        scores_in(reply, 2)


# settings


def test_a_signature_names_the_model_and_not_the_server() -> None:
    one = metric("http://a:1/v1", key_variable="X", batch_pairs=3, retries=0)
    assert one.signature() == 'score-server(model="m")'
    assert one == metric("http://b:2/v1", connections=9, timeout_seconds=1.0)
    assert one != metric("http://a:1/v1", form="rerank")
    full = metric("http://a:1", form="tei", request='{"truncate": true}')
    assert load_metric(full.signature()) == full


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": ""}, "model missing. Name the model"),
        ({"form": "Rerank"}, "form = 'Rerank': should be 'auto', 'score', 'rerank'"),
        ({"batch_pairs": 0}, "batch_pairs = 0"),
        ({"connections": 0}, "connections = 0"),
        ({"request": '{"top_n": 1}'}, r"request\.top_n: is a key that has a setting"),
        ({"request": '{"api_key": "abc"}'}, "holds a secret"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_metric("score-server", **{"model": "m", **settings})


def test_a_server_that_gives_no_scores_is_refused_before_the_first_list() -> None:
    def answer(seen: Seen, number: int) -> Reply:
        if seen.path == "/v1/score":
            return Reply({"detail": "Not Found"}, 404)
        return Reply({"error": "no reranker"}, 400)

    with serving(answer) as server:
        with pytest.raises(
            InputError,
            match=r"score-server: server http.*: gives no scores \(score: status 404: Not Found; "
            r"rerank: status 400: no reranker; tei: status 400.*Are base_url",
        ):
            metric(server).pairwise(["a"], ["b"])
        with pytest.raises(InputError, match=r"gives no scores \(score: status 404: Not Found\)"):
            metric(server, form="score").pairwise(["a"], ["b"])
    with (
        serving(lambda seen, number: Reply({"results": []})) as server,
        pytest.raises(InputError, match=r"rerank: server: reply\.results: 0 scores for 1 p"),
    ):
        metric(server, form="rerank").pairwise(["a"], ["b"])
    with pytest.raises(ResourceError, match="cannot be reached"):
        metric(server, retries=0).pairwise(["a"], ["b"])


def test_a_file_names_no_address_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts and keys go where the user says: the environment has the server of metrics that files name."""
    for setting in ('base_url="http://evil/"', 'key_variable="AWS_SECRET"'):
        with pytest.raises(CodeRefusedError, match="is not for a file to say"):
            load_from_data(f'chrf + score-server(model="m",{setting})', NO_CODE)
    with pytest.raises(CodeRefusedError, match="is not for a file to say"):
        load_from_data("score-server", NO_CODE, {"model": "m", "base_url": "http://evil"})
    model = load_from_data('score-server(model="m")', NO_CODE)
    assert isinstance(model, Metric)
    monkeypatch.delenv("DISCORANK_SCORE_SERVER", raising=False)
    with pytest.raises(InputError, match=r"base_url missing.*export it as DISCORANK_SCORE_SERVER"):
        model.pairwise(["a"], ["b"])
    with serving(scored) as server:
        monkeypatch.setenv("DISCORANK_SCORE_SERVER", server.url)
        assert model.pairwise(["a"], ["b"]).tolist() == [[value("b", "a")]]
        monkeypatch.setenv("DISCORANK_SCORE_KEY", KEY)
        load_metric('score-server(model="m")').pairwise(["a"], ["c"])
        metric(server).pairwise(["a"], ["d"])
    assert [seen.key for seen in server.seen] == [None] * 2 + [f"Bearer {KEY}"] * 2 + [None] * 2


def test_check_counts_pairs_and_asks_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lists(tmp_path / "in.jsonl", lists(3))
    with serving(scored) as server:
        assert main(["check", str(source), "-u", spec(server), "--format", "json"]) == 0
    assert not server.seen
    utility = json.loads(capsys.readouterr().out)["utility"]
    assert (utility["signature"], utility["problems"]) == ('score-server-qe(model="m")', [])


def test_a_combination_names_no_address(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    named = 'score-server(model="m",base_url="http://e")'
    features = [{"metric": name, "weight": 1, "min": 0, "max": 1} for name in (named, "chrf")]
    path.write_text(json.dumps(with_checksum({"format": 1, "features": features})))
    with pytest.raises(CodeRefusedError, match="base_url: is not for a file to say"):
        load_metric("combination", model=str(path))


def test_no_paper_is_cited_for_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert papers_of("score-server", {}) == ()
    assert main(["cite", 'score-server(model="bge")']) == 0
    assert "look up that of its model" in capsys.readouterr().err


# what goes wrong


def too_long(seen: Seen, number: int) -> Reply:
    """A server that refuses whole requests for one long text."""
    if any(len(document) > 100 for _, document in pairs_of(seen)):
        return Reply({"error": {"message": "at most 100 tokens"}}, 400)
    return scored(seen)


def crashing(seen: Seen, number: int) -> Reply:
    """One text crashes it."""
    if any("crash" in document for _, document in pairs_of(seen)):
        return Reply(b"", 500)
    return scored(seen)


def unfinite(seen: Seen, number: int) -> Reply:
    """One text has no score."""
    reply = scored(seen)
    for result, (_, document) in zip(reply.body["data"], pairs_of(seen), strict=False):
        if "crash" in document:
            result["score"] = float("nan")
    return reply


FAULTS: dict[str, tuple[Answer, str, str]] = {
    "refused": (too_long, "y" * 101, r"status 400: at most 100 tokens \(at 'yyyyyyyyy"),
    "failed at": (crashing, "crash", r"500: nothing, 2 times, while the server answers other re"),
    "not finite": (unfinite, "crash", r"data\[0\]\.score: found nan, .* \(at 'crash' with 'sour"),
}


@pytest.mark.parametrize(("answer", "bad", "reason"), FAULTS.values(), ids=FAULTS)
def test_a_pair_at_fault_costs_its_list_alone(
    answer: Answer, bad: str, reason: str, tmp_path: Path
) -> None:
    """The pair is named, and no other is asked for again in another list or wave."""
    records = list(lists(20))
    records[7]["candidates"][1] = bad
    source, out = write_lists(tmp_path / "in.jsonl", records), tmp_path / "out"
    with serving(answer) as server:
        command = ["decode", str(source), "-u", spec(server), "-o", str(out), "--quiet"]
        assert main([*command, "--max-errors", "1"]) == 3
    assert [row["id"] for row in rows(out)] == [str(i) for i in range(20) if i != 7]
    (error,) = rows(Path(f"{out}.errors.jsonl"))
    assert error["id"] == "7"
    assert re.search(reason, f"{error['where']}: {error['reason']}"), error
    counts = asked(server)
    assert counts["source 7", bad] == max(counts.values())
    assert len(server.seen) < 40  # halves of one request, and no list alone
    with serving(scored) as server:
        whole = tmp_path / "whole"
        assert main(["decode", str(source), "-u", spec(server), "-o", str(whole), "--quiet"]) == 0
    kept = [line for line in whole.read_text().splitlines() if json.loads(line)["id"] != "7"]
    assert out.read_text().splitlines() == kept


def test_a_server_with_smaller_batches_gets_smaller_ones() -> None:
    def answer(seen: Seen, number: int) -> Reply:
        return Reply({"error": "batch size"}, 413) if len(pairs_of(seen)) > 4 else scored(seen)

    with serving(answer) as server:
        scores = metric(server).score([f"h{i}" for i in range(20)], ["r"] * 20)
    assert scores.tolist() == [value("r", f"h{i}") for i in range(20)]


GONE = {
    "all fail": Reply(b"", 500),
    "busy": Reply(b"", 503),
    "another key": Reply(b"", 401),
    "another model": Reply(b"", 404),
}


@pytest.mark.parametrize("gone", GONE.values(), ids=GONE)
def test_a_server_that_works_no_more_ends_the_run(gone: Reply, tmp_path: Path) -> None:
    """Exit code 5 whatever errors are allowed; the same command resumes, and done lists are not asked for again."""
    source = write_lists(tmp_path / "in.jsonl", lists(200, 300))
    out, whole = tmp_path / "out", tmp_path / "whole"
    works = 8

    def answer(seen: Seen, number: int) -> Reply:
        return scored(seen) if number < works else gone

    def command(server: Server, to: Path) -> list[str]:
        metric = spec(server, retries=0, connections=1)
        return ["decode", str(source), "-u", metric, "-o", str(to), "--max-errors", "999"]

    with serving(answer) as server:
        assert main([*command(server, out), "--quiet"]) == 5
        done = len(rows(out))
        assert 0 < done < 200
        assert not Path(f"{out}.errors.jsonl").exists()
        works = 10**6
        before = asked(server)
        assert main([*command(server, out), "--quiet"]) == 0
        for i in range(done):
            assert asked(server)[f"source {i}", f"candidate {i} 0 ".ljust(300, "x")] == 1
        assert before.total() < asked(server).total()
    with serving(scored) as server:
        assert main([*command(server, whole), "--quiet"]) == 0
    assert out.read_bytes() == whole.read_bytes()


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    source = write_lists(tmp_path / "in.jsonl", lists(200, 300))
    out, whole = tmp_path / "out", tmp_path / "whole"
    holding = threading.Event()
    works = 8

    def answer(seen: Seen, number: int) -> Reply:
        reply = scored(seen)
        reply.hold = holding if number >= works else None
        return reply

    with serving(answer) as server:
        options = ["decode", str(source), "-u", spec(server, connections=1), "--quiet", "-o"]
        with subprocess.Popen([sys.executable, "-m", "discorank", *options, str(out)]) as process:
            wait_until(lambda: has_rows(out) or process.poll() is not None)
            process.send_signal(signal.SIGKILL)
        assert 0 < len(rows(out)) < 200
        holding.set()
        assert main([*options, str(out)]) == 0
        assert main([*options, str(whole)]) == 0
    assert out.read_bytes() == whole.read_bytes()


def test_the_memory_of_pairs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_server, "KEPT", 10)
    with serving(scored) as server:
        model = metric(server)
        scores = model.score([f"h{i}" for i in range(40)], ["r"] * 40)
        again = model.score([f"h{i}" for i in range(40)], ["r"] * 40)
    assert scores.tobytes() == again.tobytes()
    assert set(asked(server).values()) == {1, 2}


# commands


def test_decode_and_rerank_choose_by_it_and_report_asks_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run file has no address: for a report it stands in the environment."""
    source, out = write_lists(tmp_path / "in.jsonl", lists(4)), tmp_path / "out"
    best = [
        max(record["candidates"], key=lambda text: value(record["source"], text))
        for record in lists(4)
    ]
    with serving(reranked) as server:
        for command, option in (("decode", "-u"), ("rerank", "-m")):
            arguments = [command, str(source), option, spec(server), "-o", f"{out}.{command}"]
            assert main([*arguments, "--quiet"]) == 0
            assert [row["text"] for row in rows(Path(f"{out}.{command}"))] == best
        mix = f"{spec(server, 'score-server')} + 0.5*chrf"
        assert main(["decode", str(source), "-u", mix, "-o", str(out), "--quiet"]) == 0
        assert server.url not in Path(f"{out}.run.json").read_text()
        report = ["report", str(out), "-o", str(tmp_path / "page.html"), "--quiet"]
        monkeypatch.delenv("DISCORANK_SCORE_SERVER", raising=False)
        assert main(report) == 2
        monkeypatch.setenv("DISCORANK_SCORE_SERVER", server.url)
        assert main(report) == 0


def test_a_key_goes_into_one_header_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)

    def answer(seen: Seen, number: int) -> Reply:
        if any("bad" in document for _, document in pairs_of(seen)):
            return Reply({"error": f"{seen.key} may not"}, 400)
        return scored(seen)

    records = list(lists(5))
    records[2]["candidates"][0] = "bad"
    source, out = write_lists(tmp_path / "in.jsonl", records), tmp_path / "out"
    with serving(answer) as server:
        metric = spec(server, key_variable="MY_KEY")
        command = ["decode", str(source), "-u", metric, "-o", str(out), "--max-errors", "1"]
        assert main([*command, "--debug"]) == 3
        assert {seen.key for seen in server.seen} == {f"Bearer {KEY}"}
    about = json.loads(Path(f"{out}.run.json").read_text())
    assert about["signature"] == 'score-server-qe(model="m")'
    assert "[key] may not" in Path(f"{out}.errors.jsonl").read_text()
    written = "".join(path.read_text() for path in tmp_path.iterdir())
    shown = capfd.readouterr()
    assert KEY not in written + shown.out + shown.err
    monkeypatch.delenv("MY_KEY")
    assert main([*command, "-o", str(tmp_path / "other"), "--debug"]) == 2
    assert "key_variable: MY_KEY is not set" in capfd.readouterr().err


# reward models


def rewarded(path: str, outputs: Callable[[str, str], Any]) -> Answer:
    """vLLM with a reward model that answers one path."""

    def answer(seen: Seen, number: int) -> Reply:
        if seen.path != f"/{path}":
            return Reply({"detail": "Not Found"}, 404)
        *_, user, assistant = seen.body["messages"]
        values = outputs(user["content"], assistant["content"])
        key = "data" if path == "pooling" else "probs"
        data = [{"index": 0, key: values, "label": "LABEL_0", "num_classes": 1}]
        return Reply({"id": "x", "object": "list", "data": data})

    return answer


@pytest.mark.parametrize("path", ["pooling", "classify"])
@pytest.mark.parametrize("setting", ["auto", "itself"])
def test_a_reward_model_reads_a_conversation(path: str, setting: str) -> None:
    hypotheses = ["a b", "", "d e f"]
    with serving(rewarded(path, lambda q, d: [value(q, d)])) as server:
        form = "auto" if setting == "auto" else path
        model = metric(server, "reward-server", form=form, system="Be kind.")
        matrix = model.pairwise(hypotheses, [], "the source")
    assert matrix[:, 0].tolist() == [value("the source", text) for text in hypotheses]
    bodies = [seen.body for seen in server.seen if seen.path == f"/{path}"]
    assert {len(body["messages"]) for body in bodies} == {3}
    assert {body["messages"][0]["content"] for body in bodies} == {"Be kind."}
    assert {body["use_activation"] for body in bodies} == {False}
    assert len(bodies) == 1 + len(hypotheses)


def test_one_output_of_a_reward_model() -> None:
    """Models that score every token answer a row for each: the last counts."""
    several = rewarded("pooling", lambda q, d: [[0.0, 0.0], [1.0, value(q, d)]])
    with serving(several) as server:
        model = metric(server, "reward-server", output=1)
        assert model.pairwise(["a"], [], "s")[0, 0] == value("s", "a")
        with pytest.raises(InputError, match=r"2 outputs.*output=0 to 1"):
            metric(server, "reward-server").scorer  # noqa: B018
        with pytest.raises(InputError, match="2 outputs, counted from 0"):
            metric(server, "reward-server", output=2).scorer  # noqa: B018


@pytest.mark.parametrize("outputs", [[], None, ["x"], [float("nan")]])
def test_a_reward_that_is_no_number_is_told(outputs: Any) -> None:
    answer = rewarded("pooling", lambda q, d: outputs if d == "b" else [0.5])
    with serving(answer) as server:
        model = metric(server, "reward-server", form="pooling")
        assert model.pairwise(["a"], [], "s")[0, 0] == 0.5
        with pytest.raises(InputError, match=r"data\[0\]\.data|not JSON|server"):
            model.pairwise(["b"], [], "s")
