"""The server: what it is made of, its address, and its life from loading models to the last open request."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from ...metrics.errors import DiscorankError, InputError
from ...metrics.mixture import Utility
from ...metrics.optional_packages import require
from ...rerank.decider import Decider
from ...rerank.engines.interface import Engine
from ...rerank.mbr import MBRDecoder
from ..server.exchange import Exchange
from ..server.server_probe import ServerFacts, copies_problem, facts_of, logprobs_problem
from ..server.settings import key_in
from .candidate_draw import Upstream
from .counters import Counters
from .decisions import CALLS, BatchWindow, ChoosingThread, Decisions
from .document_streams import DocumentStreams
from .door import LimitedReport
from .panel import Panel
from .questions import Allowed
from .score_endpoints import ScoreEndpoints
from .settings import DoorSettings, DrawingSettings, ScoreSettings

PACKAGES = ("uvicorn", "starlette", "prometheus_client", "jsonschema", "aiohttp")
STOP_SECONDS = 5.0  # for the thread that chooses, when nothing waits any more


class ProxyServer:
    """A server; `serve` serves until it is asked to stop.

    Args:
        panel: the upstreams; None without one.
        deciders: what chooses, by name, of which the first does where a request names none.
        engine: what values lists.
        drawing: how candidates are drawn.
        door: who may come in.
        report: takes what went wrong here, for people.
        utilities: the metrics that answer requests for scores, by name, of which the first does where one names none.
        scoring: how.

    Raises:
        DiscorankError: a key, a metric or the address cannot be had; a package of the extra is missing.
    """

    def __init__(
        self,
        panel: Panel | None,
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

        models = [] if panel is None else panel.models
        if panel is not None:
            panel.check(deciders.values(), drawing.adaptive)
        if drawing.adaptive:
            deciders = {name: _with_matrix(name, one) for name, one in deciders.items()}
        utilities, scoring = utilities or {}, scoring or ScoreSettings()
        self._door, self._drawing = door, drawing
        self._reads_logprobs = any(decider.reads_logprobs for decider in deciders.values())
        used = [*deciders.values(), CALLS] if models else []
        self._metrics = [metric for decider in used for metric in decider.metrics]
        self._metrics += utilities.values()
        self._report = LimitedReport(report)
        self._upstreams = [
            Upstream(Exchange(connection, len(models) == 1), spec.name, spec.model, self._report)
            for spec, connection in models
        ]
        access_key = key_in(door.access_key_variable, "access_key_variable")
        num_requests = door.max_open + door.max_waiting
        num_upstream = sum(model.connection.connections for model in models)
        num_connections = max_connections(num_requests, num_upstream)
        self._choosing = ChoosingThread(engine, num_requests, BatchWindow(scoring.window_seconds))
        counters = Counters()
        choosing, seconds = self._choosing, door.choice_seconds
        counters.watch("choices", "Choices that wait or are made", lambda: choosing.num_waiting)
        scores = ScoreEndpoints(utilities, choosing, scoring, seconds, counters)
        behind = None
        if panel is not None:
            width = max(decider.width for decider in deciders.values())
            documents = DocumentStreams(width, door.max_documents, door.document_seconds)
            counters.watch("documents", "Documents that are kept", lambda: len(documents))
            upstreams, quorum = self._upstreams, panel.quorum
            decisions = Decisions(
                deciders, upstreams, choosing, documents, drawing, seconds, counters, quorum
            )
            sizes = tuple(model.spec.n for model in models)
            names, first = frozenset(deciders), next(iter(deciders))
            allowed = Allowed(names, first, drawing.most_candidates, sizes, models[0].spec.model)
            behind = Behind(upstreams, decisions, allowed, drawing)
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

    async def serve(self, probes: bool = False, model: str | None = None) -> None:
        """Serves until `stop` is called, and until what is open then is done.

        Args:
            probes: whether the servers upstream are asked what they do, and people are told what they do not.
            model: which of its models is asked; the only one if not given.
        """
        asyncio.get_running_loop().set_exception_handler(self._tell)
        probed = self._upstreams if probes else []
        beside = [asyncio.ensure_future(self._probed(one, model)) for one in probed]
        try:
            await self._server.serve([self._server.socket])
        finally:
            for task in beside:
                task.cancel()
            if beside:
                await asyncio.wait(beside)
            await self._close_upstreams()
            self._app.close()
            await asyncio.to_thread(self._choosing.stop, STOP_SECONDS)

    async def _close_upstreams(self) -> None:
        """Closes the connections to the servers upstream."""
        for upstream in self._upstreams:
            await upstream.exchange.close()

    async def facts(self, model: str | None) -> AsyncIterator[tuple[str, ServerFacts]]:
        """The name of each server upstream and what it does; closes its connections.

        Raises:
            DiscorankError: one cannot be asked.
        """
        self._server.socket.close()
        if not self._upstreams:
            raise InputError("there is no server upstream", where="--probe", fix="Add --upstream")
        try:
            for upstream in self._upstreams:
                yield upstream.name, await self._facts_of(upstream, model)
        finally:
            await self._close_upstreams()
            self._app.close()

    async def _probed(self, upstream: Upstream, model: str | None) -> None:
        """Tells people what a server upstream does not do; says nothing of one that is not there yet."""
        name = f"upstream {upstream.name}".rstrip()
        try:
            facts = await self._facts_of(upstream, model)
        except InputError as error:
            self._report(f"discorank: {name}: not asked what it does: {error}")
            return
        except DiscorankError:
            return
        problems = [copies_problem(facts, self._drawing.sampling_temperature or 1.0)]
        if self._reads_logprobs:
            problems.append(logprobs_problem(facts))
        for problem in filter(None, problems):
            self._report(f"discorank: {name}: {problem}")

    async def _facts_of(self, upstream: Upstream, model: str | None) -> ServerFacts:
        """What a server upstream does with requests as they are made here."""
        drawing, named = self._drawing, upstream.model or model
        temperature = drawing.sampling_temperature
        return await facts_of(upstream.exchange, named, drawing.further, temperature)

    def _tell(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Tells people of an error that came of no request."""
        error = context.get("exception")
        kind = "" if error is None else f": {type(error).__name__}"
        self._report(f"discorank: {context['message']}{kind}")

    def stop(self) -> None:
        """Lets nobody in any more; what is open is finished."""
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
