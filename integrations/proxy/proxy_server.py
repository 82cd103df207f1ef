"""The server: its parts, its address, and its life from loading models to the last open request."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...metrics.errors import InputError
from ...metrics.mixture import Utility
from ...metrics.optional_packages import require
from ...rerank.decider import Decider
from ...rerank.engines.interface import Engine
from ...rerank.lists import Candidate
from ...rerank.mbr import MBRDecoder
from ...rerank.reranker import Reranker
from ..server.exchange import Exchange
from ..server.settings import Connection, key_in
from .candidate_draw import SYSTEM, Upstream
from .counters import Counters, LimitedReport
from .decisions import CALLS, ChoosingThread, Decisions
from .document_streams import DocumentStreams
from .questions import Allowed
from .score_endpoints import ScoreEndpoints
from .settings import DoorSettings, DrawingSettings, ScoreSettings, UpstreamSpec

PACKAGES = ("uvicorn", "starlette", "prometheus_client", "jsonschema", "aiohttp")
STOP_SECONDS = 5.0  # for the thread that chooses, when nothing waits any more


class ProxyServer:
    """A server; `serve` serves until it is asked to stop.

    Args:
        upstreams: one without a name, or models by their names, and how each is reached; the first gets what passes
            through. Without any, scores alone are answered.
        deciders: what chooses, by name, of which the first does where a request names none.
        engine: what values lists.
        drawing: how candidates are drawn.
        door: who may come in.
        report: takes lines for the operator.
        utilities: the metrics that answer requests for scores, by name, of which the first does where one names none.
        scoring: how.

    Raises:
        DiscorankError: a key, a metric or the address cannot be had; a package of the extra is missing.
    """

    def __init__(
        self,
        upstreams: Sequence[tuple[UpstreamSpec, Connection]],
        deciders: Mapping[str, Decider],
        engine: Engine,
        drawing: DrawingSettings,
        door: DoorSettings,
        report: Callable[[str], object],
        utilities: Mapping[str, Utility] | None = None,
        scoring: ScoreSettings | None = None,
    ) -> None:
        require("serve", *PACKAGES)
        from .app import App, Behind
        from .connections import HttpServer, max_connections

        specs = [spec for spec, _ in upstreams]
        if upstreams:
            _check_upstreams(specs, deciders.values(), drawing)
        if drawing.adaptive:
            deciders = {name: _with_matrix(name, one) for name, one in deciders.items()}
        utilities, scoring = utilities or {}, scoring or ScoreSettings()
        used = [*deciders.values(), CALLS] if upstreams else []
        self._metrics = [metric for decider in used for metric in decider.metrics]
        self._metrics += utilities.values()
        self._report = LimitedReport(report)
        self._upstreams = [
            Upstream(Exchange(connection, waits=len(upstreams) == 1), spec, self._report)
            for spec, connection in upstreams
        ]
        access_key = key_in(door.access_key_variable, "access_key_variable")
        num_requests = door.max_open + door.max_waiting
        num_upstream = sum(connection.connections for _, connection in upstreams)
        num_connections = max_connections(num_requests, num_upstream)
        self._choosing = ChoosingThread(engine)
        counters = Counters()
        choosing, seconds = self._choosing, door.choice_seconds
        counters.watch("choices", "Choices that wait or are made", lambda: choosing.num_waiting)
        scores = ScoreEndpoints(utilities, choosing, scoring, seconds, counters)
        behind = None
        if upstreams:
            width = max(decider.width for decider in deciders.values())
            documents = DocumentStreams(width, door.max_documents, door.document_seconds)
            counters.watch("documents", "Documents that are kept", lambda: len(documents))
            decisions = Decisions(
                deciders, self._upstreams, choosing, documents, drawing, seconds, counters
            )
            sizes = tuple(spec.n for spec in specs)
            names, first = frozenset(deciders), next(iter(deciders))
            allowed = Allowed(names, first, drawing, sizes, specs[0].model)
            behind = Behind(self._upstreams, decisions, allowed)
        self._app = App(behind, scores, door, access_key, counters, self._report)
        self._server = HttpServer(self._app, num_connections, door)

    @property
    def address(self) -> str:
        """Where it listens."""
        host, port = self._server.socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def load(self) -> None:
        """Loads the metrics; raises DiscorankError for one that cannot be loaded."""
        try:
            self._choosing.start(self._metrics)
        except BaseException:
            self._server.socket.close()
            raise
        gc.freeze()  # what is loaded stays: no search for garbage has to look at it again

    async def serve(self) -> None:
        """Serves until `stop` is called, and until all open requests are done."""
        asyncio.get_running_loop().set_exception_handler(self._note_error)
        try:
            await self._server.serve([self._server.socket])
        finally:
            for upstream in self._upstreams:
                await upstream.exchange.close()
            self._app.close()
            await asyncio.to_thread(self._choosing.stop, STOP_SECONDS)
            self._report.end()

    def _note_error(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Report an error that belongs to no request."""
        error = context.get("exception")
        kind = "" if error is None else f": {type(error).__name__}"
        self._report(f"discorank: {context['message']}{kind}")

    def stop(self) -> None:
        """Take no new requests; open ones are finished."""
        self._server.should_exit = True


def _with_matrix(name: str, decider: Decider) -> MBRDecoder:
    """A decoder whose rankings tell whether drawing may stop; raises InputError if none can."""
    if isinstance(decider, MBRDecoder) and decider.estimator.shortlist is None:
        parts = [part for _, part in decider.metrics[-1].parts]
        if all(part.info.needs_references for part in parts):
            return decider.with_settings(keep_matrix=True)
    raise InputError(
        f"{name} does not compare candidates with each other",
        where="adaptive",
        fix="Give a utility (-u) with references, without a shortlist, or leave adaptive out",
    )


def _check_upstreams(
    specs: Sequence[UpstreamSpec], deciders: Iterable[Decider], drawing: DrawingSettings
) -> None:
    """Raises InputError for settings that do not go with these upstreams."""
    names = [spec.name for spec in specs]
    if drawing.quorum is not None and drawing.quorum > len(names):
        problem = f"{drawing.quorum} of {len(names)} models"
        raise InputError(problem, where="quorum", fix="Lower it, or name more models")
    if not names[0]:
        return
    if drawing.adaptive:
        problem = "draws from one model until more would not change the choice"
        raise InputError(problem, where="adaptive", fix="Leave it out, or name one upstream")
    for decider in deciders:
        pools = decider if isinstance(decider, MBRDecoder) else getattr(decider, "decoder", None)
        if isinstance(pools, MBRDecoder) and pools.pool.prior is not None:
            candidates = [Candidate("", None, {SYSTEM: name}) for name in names]
            pools.pool.weights_of(candidates, "--upstream")
        if isinstance(decider, Reranker) and decider.shrinkage.shrink:
            means = decider.shrinkage.means
            if means is None:
                fix = "Name the file of an earlier run of rerank (--system-means), or leave --shrink out"
                raise InputError("has no means of these models", where="shrink", fix=fix)
            means.shrunk(np.zeros(len(names)), names, 1.0)
