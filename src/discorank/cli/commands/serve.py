"""``discorank serve --upstream URL -u UTILITY``: OpenAI's protocol, answered with the best of n candidates.

``discorank serve -m METRIC ...``: scores over HTTP, with a server upstream or without one.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from ...integrations.proxy.app import ProxyServer
from ...integrations.proxy.panel import (
    Panel,
    PanelModel,
    PanelSettings,
    UpstreamSpec,
    read_upstreams,
)
from ...integrations.proxy.settings import DoorSettings, DrawingSettings, ScoreSettings
from ...integrations.server.server_probe import ProbeOptions, table_of
from ...integrations.server.settings import Connection
from ...metrics.errors import InputError
from ...metrics.mixture import Utility
from ...metrics.spec.checked_settings import Converted, Rare, setting_names, settings
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
from ..options import Options, build, flag_of, needed
from ..options.engines import EngineSettings
from ..options.metric_options import MetricOptions
from ..terminal.console import say
from .rerank import FeatureOptions, chosen_features

RERANK = "rerank"  # the name of the decoder that features make
# what there is no use for without a server upstream
_OF_UPSTREAM = frozenset(
    name
    for component in (
        MBRDecoder,
        Reranker,
        DrawingSettings,
        Connection,
        ProbeOptions,
        PanelSettings,
    )
    for name in setting_names(component)
) | {"allow_utility", "allow_path", "probe_model"}
# what has no effect where a utility alone chooses
_FOR_FEATURES = frozenset(setting_names(Shrinkage))
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
        probe_model: the model that is asked what the server does; the only one it names, if not given.
    """

    heading: ClassVar = "server"

    upstream: Annotated[tuple[str, ...], Converted(listed)] = ()
    allow_utility: tuple[str, ...] = ()
    probe_model: Annotated[str | None, Rare()] = None


OPTIONS = Options(
    "serve",
    "Serve OpenAI's protocol: every request goes upstream n times, and the answer is the best of the candidates. The "
    "metrics answer requests for scores too, and without a server upstream these alone.",
    [
        ServeOptions,
        PanelSettings,
        MBRDecoder,
        FeatureOptions,
        Reranker,
        DrawingSettings,
        DoorSettings,
        ScoreSettings,
        Connection,
        ProbeOptions,
        EngineSettings,
        MetricOptions,
    ],
    short={"utility": "u", "metric": "m", "num_candidates": "n"},
    hidden=[
        "base_url",
        "system_field",
        "max_calls",
        "max_tokens",
    ],  # these are --upstream, and the name in it
    # the rule that stops drawing knows the weighted mean of a sum alone
    needs=(ALL_PAIRS, PLAIN_SUMS, PSEUDO_REFERENCES, SINGLE_LISTS),
    lacks=(SEVERAL_PLACES,),
    defaults={"connections": 256, "timeout_seconds": 300.0, "retries": 2},
    first=["upstream", "utility", "num_candidates", "port", "deadline_seconds", "adaptive"],
    examples=[
        "serve --upstream http://localhost:8000/v1 -u chrf",
        "serve --upstream a=http://localhost:8000/v1 b=http://localhost:8001/v1 -u vote --deadline 3s",
    ],
)


def run(arguments: Sequence[str]) -> int:
    """Serves until a signal asks it to stop; returns the exit code."""
    values = OPTIONS.parse(arguments)
    specs = read_upstreams(build(ServeOptions, values).upstream)
    _check_names(values, specs)
    deciders = _deciders(values) if specs else {}
    utilities = _loaded(deciders) if specs else _scored(values)
    door, drawing = build(DoorSettings, values), build(DrawingSettings, values)
    scoring = build(ScoreSettings, values)
    models = [PanelModel(spec, _connection(values, spec)) for spec in specs]
    panel = Panel(models, values["quorum"]) if models else None
    with build(EngineSettings, values).opened(build(MetricOptions, values).cache()) as engine:
        server = ProxyServer(panel, deciders, engine, drawing, door, say, utilities, scoring)
        if values["probe"]:
            asyncio.run(_probed(server, values["probe_model"]))
            return 0
        server.load()
        gc.freeze()  # what is loaded stays: looking through it again would hold up answers
        say(f"discorank: serving at {server.address}/v1", values["quiet"])
        asyncio.run(_served(server, not values["skip_probe"], values["probe_model"]))
    say("discorank: stopped", values["quiet"])
    return 0


def _check_names(values: Mapping[str, Any], specs: Sequence[UpstreamSpec]) -> None:
    """Raises InputError for options that have no effect, or no sense, beside these servers upstream."""
    given = OPTIONS.given(values)
    if any(spec.name for spec in specs):
        if values["key_variable"] is not None:
            problem = "would send one key to every server"
            fix = "Name the variable of each, NAME=URL,key=VARIABLE"
            raise InputError(problem, where="--key-variable", fix=fix)
        for name in _FOR_FEATURES.intersection(given):
            if not values["metric"]:
                raise InputError("is for features", where=flag_of(name), fix="Give them, -m METRIC")
        if values["prior"] is not None and not (values["utility"] or values["allow_utility"]):
            raise InputError(
                "is for a utility", where="--prior", fix=f"Add -m {EXPECTED} -u UTILITY"
            )
        return
    for name in given:
        if specs and name in setting_names(PanelSettings):
            fix = "Write --upstream NAME=URL for each, or leave it out"
            raise InputError("is for upstreams with names", where=flag_of(name), fix=fix)
    marks = {flag_of(name): OPTIONS.marks[name] for name in given}
    refuse_conflicts(marks, "a server upstream without a name", lacks=(SYSTEMS,))


def _connection(values: Mapping[str, Any], spec: UpstreamSpec) -> Connection:
    """How a server is reached; raises InputError, which names it."""
    if not spec.name:
        return build(Connection, values, base_url=spec.url)
    try:
        return build(Connection, values, base_url=spec.url, key_variable=spec.key_variable)
    except InputError as error:
        raise error.inside(f"--upstream {spec.name}") from None


async def _probed(server: ProxyServer, model: str | None) -> None:
    """Prints what each server upstream does."""
    async for name, facts in server.facts(model):
        print(f"{name}:\n{table_of(facts)}" if name else table_of(facts))


async def _served(server: ProxyServer, probes: bool, model: str | None) -> None:
    """Serves until a signal comes, and finishes what is open; a second Ctrl-C does not wait for it."""
    sys.setswitchinterval(SWITCH_SECONDS)
    loop = asyncio.get_running_loop()
    if sys.platform != "win32":  # there loops take no signals, and Ctrl-C ends it at once
        for number in heeded():
            loop.add_signal_handler(number, server.stop)
    await server.serve(probes, model)


def _scored(values: Mapping[str, Any]) -> dict[str, Utility]:
    """What scores where there is no server upstream, by the name that it was given.

    Raises:
        InputError: no metric is named, or an option is of no use without a server upstream.
    """
    if not values["metric"]:
        fix = "Name a server, or metrics that answer scores, -m METRIC"
        raise InputError("is missing", where="--upstream", fix=fix)
    for name in OPTIONS.given(values):
        if name in _OF_UPSTREAM:
            problem = "is for a server upstream"
            raise InputError(problem, where=flag_of(name), fix="Leave it out, or add --upstream")
    utilities = {name: _metrics(values).load(name) for name in dict.fromkeys(values["metric"])}
    _metrics(values).check(list(utilities.values()))
    return utilities


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


def _deciders(values: Mapping[str, Any]) -> dict[str, Decider]:
    """What chooses, by name; the first where a request names none."""
    deciders: dict[str, Decider] = {}
    if values["weights"] in SIGNS:
        problem = "is not kept of the candidates of a request"
        raise InputError(problem, where=f"--weights {values['weights']}", fix="Weigh by logprob")
    if values["metric"]:
        features = chosen_features(values["metric"], _metrics(values))
        if kept := SIGNS.keys() & set(features):
            problem = "is not kept of the candidates of a request"
            raise InputError(problem, where=f"-m {min(kept)}", fix="Leave it out")
        expected = _expected(values) if EXPECTED in features else None
        _metrics(values).check([*features, *(expected.metrics if expected else ())])
        deciders[RERANK] = build(Reranker, values, features=features, decoder=expected, nbest=None)
        names = values["allow_utility"]
        if values["utility"] and expected is None:
            raise InputError("stands beside -m", where="--utility", fix=f"Add -m {EXPECTED}")
    else:
        names = (needed(values["utility"], "utility"), *values["allow_utility"])
    for name in dict.fromkeys(names):
        utility = _metrics(values).load(name)
        _metrics(values).check([utility])
        shortlist = values["shortlist"] and _metrics(values).load(values["shortlist"])
        deciders[name] = build(MBRDecoder, values, utility=utility, shortlist=shortlist, nbest=None)
    return deciders


def _metrics(values: Mapping[str, Any]) -> MetricOptions:
    return build(MetricOptions, values)


def _expected(values: Mapping[str, Any]) -> MBRDecoder:
    """The decoder of the feature "expected"."""
    utility = _metrics(values).load(needed(values["utility"], "utility"))
    return build(MBRDecoder, values, utility=utility, shortlist=None)
