"""``discorank serve --upstream URL -u UTILITY``: OpenAI's protocol, answered with the best of n candidates.

``discorank serve -m METRIC ...``: scores over HTTP, with a server upstream or without one.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from ...integrations.proxy.proxy_server import ProxyServer
from ...integrations.proxy.settings import (
    DoorSettings,
    DrawingSettings,
    ScoreSettings,
    UpstreamSpec,
    read_upstreams,
)
from ...integrations.server.settings import Connection
from ...metrics.errors import InputError
from ...metrics.mixture import Utility
from ...metrics.spec.checked_settings import Converted, setting_names, settings
from ...metrics.storage.stop_signals import heeded
from ...rerank.capabilities import (
    ALL_PAIRS,
    PLAIN_SUMS,
    PSEUDO_REFERENCES,
    SEVERAL_PLACES,
    SINGLE_LISTS,
    SYSTEMS,
    refuse_conflicts,
)
from ...rerank.decider import Decider
from ...rerank.mbr import MBRDecoder
from ...rerank.reranker import EXPECTED, Reranker
from ...rerank.shrinkage import Shrinkage
from ...rerank.votes.confidence import SIGNS
from ..options import Given, command, needed
from ..options.command_options import build
from ..options.decoders import DecoderOptions, EngineSettings, MetricOptions
from ..terminal.console import say
from .rerank import FeatureOptions, RerankerOptions, chosen_features

RERANK = "rerank"  # the name of the decoder that features make
SWITCH_SECONDS = 0.0005  # after which the thread that chooses lets the event loop go on


def listed(value: Any) -> Any:
    """One text as a list of one; none as an empty one; anything else as it is."""
    if isinstance(value, str):
        return (value,)
    return () if value is None else value


@settings
class ServeOptions:
    """Where candidates come from, and what may be chosen.

    Args:
        upstream: the address of the server that generates, such as http://localhost:8000/v1; without it, -m METRIC
            alone answers scores. Of several models NAME=URL of each, with ,model=NAME,n=NUMBER,key=VARIABLE behind it.
        allow_utility: further utilities that a request may choose by their name.
    """

    heading: ClassVar = "server"

    upstream: Annotated[tuple[str, ...], Converted(listed)] = ()
    allow_utility: tuple[str, ...] = ()


# what there is no use for without a server upstream
_OF_UPSTREAM = frozenset(
    name
    for component in (
        DecoderOptions,
        RerankerOptions,
        DrawingSettings,
        Connection,
    )
    for name in setting_names(component)
) | {"allow_utility", "allow_path"}


@command(
    "Serve OpenAI's protocol: every request goes upstream n times, and the answer is the best of the candidates. The "
    "metrics answer requests for scores too, and without a server upstream these alone.",
    short={"utility": "u", "metric": "m", "num_candidates": "n"},
    # a system is the name in --upstream, which has the addresses too
    hidden=["system_field", "base_url", "max_calls", "max_tokens"],
    defaults={"connections": 256, "timeout_seconds": 300.0, "retries": 2},
    # the rule that stops drawing knows the weighted mean of a sum alone
    needs=(ALL_PAIRS, PLAIN_SUMS, PSEUDO_REFERENCES, SINGLE_LISTS),
    lacks=(SEVERAL_PLACES,),
    first=["upstream", "utility", "num_candidates", "port", "deadline_seconds", "adaptive"],
    examples=[
        "serve --upstream http://localhost:8000/v1 -u chrf",
        "serve --upstream a=http://localhost:8000/v1 b=http://localhost:8001/v1 -u vote --deadline 3s",
    ],
)
def serve(
    options: ServeOptions,
    decoder: DecoderOptions,
    features: FeatureOptions,
    reranker: RerankerOptions,
    drawing: DrawingSettings,
    door: DoorSettings,
    scoring: ScoreSettings,
    connection: Connection | None,
    engine: EngineSettings,
    metrics: MetricOptions,
    given: Given,
) -> None:
    """Serves until a signal asks it to stop; each server upstream has a connection of its own."""
    specs = read_upstreams(options.upstream)
    _check_names(specs, features, given)
    deciders: dict[str, Decider] = {}
    if specs:
        deciders = _deciders(options, decoder, features, reranker, metrics)
        utilities = _loaded(deciders)
    else:
        utilities = _scored(features, metrics, given)
    upstreams = [(spec, _connection(spec, given)) for spec in specs]
    with engine.opened(metrics.cache()) as opened:
        server = ProxyServer(upstreams, deciders, opened, drawing, door, say, utilities, scoring)
        server.load()
        gc.freeze()  # what is loaded stays: looking through it again would hold up answers
        say(f"discorank: serving at {server.address}/v1")
        asyncio.run(_served(server))
    say("discorank: stopped")


def _connection(spec: UpstreamSpec, given: Given) -> Connection:
    """The connection to a server upstream; raises InputError, which names it."""
    own: dict[str, Any] = {
        "base_url": spec.url,
        **({"key_variable": spec.key_variable} if spec.name else {}),
    }
    try:
        return build(Connection, given.values, **own)
    except InputError as error:
        raise (error.inside(f"--upstream {spec.name}") if spec.name else error) from None


def _check_names(specs: Sequence[UpstreamSpec], features: FeatureOptions, given: Given) -> None:
    """Raises InputError for options that have no effect, or no sense, beside these servers upstream."""
    if any(spec.name for spec in specs):
        fix = "Name the variable of each, NAME=URL,key=VARIABLE"
        given.refuse(["key_variable"], "would send one key to every server", fix)
        if not features.metric:
            given.refuse(setting_names(Shrinkage), "is for features", "Give them, -m METRIC")
        if not given.names & {"utility", "allow_utility"}:
            given.refuse(["prior"], "is for a utility", f"Add -m {EXPECTED} -u UTILITY")
        return
    if specs:
        fix = "Write --upstream NAME=URL for each, or leave it out"
        given.refuse(["quorum"], "is for upstreams with names", fix)
    refuse_conflicts(given.marks, "a server upstream without a name", lacks=(SYSTEMS,))


async def _served(server: ProxyServer) -> None:
    """Serves until a signal comes, and finishes what is open; a second Ctrl-C does not wait for it."""
    sys.setswitchinterval(SWITCH_SECONDS)
    loop = asyncio.get_running_loop()
    if sys.platform != "win32":  # there loops take no signals, and Ctrl-C ends it at once
        for number in heeded():
            loop.add_signal_handler(number, server.stop)
    await server.serve()


def _scored(features: FeatureOptions, metrics: MetricOptions, given: Given) -> dict[str, Utility]:
    """What scores where there is no server upstream, by the name that it was given.

    Raises:
        InputError: no metric is named, or an option is of no use without a server upstream.
    """
    names = tuple(dict.fromkeys(features.metric))
    if not names:
        fix = "Name a server, or metrics that answer scores, -m METRIC"
        raise InputError("is missing", where="upstream", fix=fix)
    given.refuse(_OF_UPSTREAM, "is for a server upstream", "Leave it out, or add --upstream")
    return dict(zip(names, metrics.load_all(names), strict=True))


def _loaded(deciders: Mapping[str, Decider]) -> dict[str, Utility]:
    """What scores beside a server upstream, by its name: utilities and features that can score a text alone."""
    utilities: dict[str, Utility] = {}
    for name, decider in deciders.items():
        if isinstance(decider, MBRDecoder):
            utilities[name] = decider.loaded_utility
        else:
            utilities |= {metric.signature(): metric for metric in decider.metrics}
    waits = {name for name, metric in utilities.items() if any(p.unfitted for _, p in metric.parts)}
    return {name: metric for name, metric in utilities.items() if name not in waits}


def _deciders(
    options: ServeOptions,
    decoder: DecoderOptions,
    features: FeatureOptions,
    reranker: RerankerOptions,
    metrics: MetricOptions,
) -> dict[str, Decider]:
    """What chooses, by name; the first where a request names none."""
    deciders: dict[str, Decider] = {}
    not_kept = "is not kept of the candidates of a request"
    if decoder.pool.weights in SIGNS:
        where = f"--weights {decoder.pool.weights}"
        raise InputError(not_kept, where=where, fix="Weigh by logprob")
    decoder = replace(decoder, choice=replace(decoder.choice, nbest=None))
    names = options.allow_utility
    if features.metric:
        chosen = chosen_features(features.metric, metrics)
        if kept := SIGNS.keys() & set(chosen):
            raise InputError(not_kept, where=f"-m {min(kept)}", fix="Leave it out")
        expected = None
        if EXPECTED in chosen:
            alone = replace(decoder, estimator=replace(decoder.estimator, shortlist=None))
            expected = alone.loaded(metrics, features=chosen)
        elif decoder.utility:
            problem = "cannot be combined with -m"
            raise InputError(problem, where="utility", fix=f"Add -m {EXPECTED}")
        else:
            metrics.check(chosen)
        choice = replace(reranker.choice, nbest=None)
        deciders[RERANK] = Reranker(
            chosen, reranker.normalize, reranker.shrinkage, choice, reranker.order, expected
        )
    else:
        names = (needed(decoder.utility, "utility"), *names)
    for name in dict.fromkeys(names):
        deciders[name] = replace(decoder, utility=name).loaded(metrics)
    return deciders
