"""Forms in which servers are asked for scores of pairs of texts: the body of a request, and the scores in its reply.

    score   POST score   {"model", "text_1": [q, ...], "text_2": [d, ...]}
            {"data": [{"index", "score"}]}                                vLLM
    rerank  POST rerank  {"model", "query": q, "documents": [d, ...], "top_n"}
            {"results": [{"index", "relevance_score"}]}                   vLLM, Jina, Cohere v1 and v2, and others
    tei     POST rerank  {"query": q, "texts": [d, ...]}
            [{"index", "score"}]                                          text-embeddings-inference
q is the query, d a document. Results may stand in any order, and rerankers put the best first: the index says whose a
score is. Lists and names of scores are read from every form, as servers mix them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...metrics.errors import InputError, excerpt
from ...rerank.lists import finite

_LISTS = ("data", "results")
_SCORES = ("relevance_score", "score")


class Pair(NamedTuple):
    """What is scored together."""

    query: str
    document: str


class PairForm(NamedTuple):
    """How a server is asked.

    Args:
        name: of the form.
        path: behind the address.
        one_query: whether all pairs of a request have one query.
        probe: what shows whether a server works.
    """

    name: str
    path: str
    one_query: bool
    probe: Pair = Pair("Hello", "Hello")

    def body(self, model: str, pairs: Sequence[Pair]) -> dict[str, Any]:
        """The request for some pairs, which have one query if `one_query`."""
        documents = [pair.document for pair in pairs]
        if self.name == "score":
            queries = [pair.query for pair in pairs]
            return {"model": model, "text_1": queries, "text_2": documents}
        query = pairs[0].query
        if self.name == "tei":
            return {"query": query, "texts": documents}
        return {"model": model, "query": query, "documents": documents, "top_n": len(documents)}

    def values(self, reply: Any, pairs: Sequence[Pair]) -> list[float]:
        """The score of every pair of a request; errors as `scores_in`."""
        return scores_in(reply, len(pairs))


FORMS = {
    form.name: form
    for form in (
        PairForm("score", "score", one_query=False),
        PairForm("rerank", "rerank", one_query=True),
        PairForm("tei", "rerank", one_query=True),
    )
}


def scores_in(reply: Any, num_pairs: int) -> list[float]:
    """The score of every pair of a request, in the order of the request.

    Raises:
        InputError: the reply has no list of results, more or fewer than pairs, one of them twice, or a score that is
            no finite number; says where.
    """
    where, results = _results(reply)
    if len(results) != num_pairs:
        raise InputError(f"{len(results)} scores for {num_pairs} pairs", where=where)
    scores: dict[int, float] = {}
    for number, result in enumerate(results):
        place = f"{where}[{number}]"
        index, score = _result(result, place)
        if not 0 <= index < num_pairs or index in scores:
            problem = f"index {index}, expected each of 0 to {num_pairs - 1} once"
            raise InputError(problem, where=place)
        scores[index] = score
    return [scores[index] for index in range(num_pairs)]


def _results(reply: Any) -> tuple[str, list[Any]]:
    """The list of results in a reply, and where it stands."""
    if isinstance(reply, list):
        return "server: reply", reply
    for key in _LISTS:
        value = reply.get(key) if isinstance(reply, Mapping) else None
        if isinstance(value, list):
            return f"server: reply.{key}", value
    raise InputError(f"no list of scores, found {excerpt(reply)}", where="server: reply")


def _result(result: Any, place: str) -> tuple[int, float]:
    """The index and the score of one result."""
    fields = result if isinstance(result, Mapping) else {}
    index = fields.get("index")
    if isinstance(index, bool) or not isinstance(index, int):
        raise InputError(f"no index, found {excerpt(result)}", where=place)
    name = next((name for name in _SCORES if name in fields), None)
    if name is None:
        raise InputError(f"no score, found {excerpt(result)}", where=place)
    score = finite(fields[name])
    if score is None:
        problem = f"found {excerpt(fields[name])}, expected a finite number"
        raise InputError(problem, where=f"{place}.{name}")
    return index, score
