"""A running `discorank serve` in this process, before a scripted server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import httpx2

from benchmarks.support.scripted_replies import Script
from benchmarks.support.scripted_upstream import ScriptedUpstream, upstream_running
from discorank.integrations.proxy.proxy_server import ProxyServer
from discorank.integrations.proxy.settings import (
    DoorSettings,
    DrawingSettings,
    ScoreSettings,
    UpstreamSpec,
)
from discorank.integrations.server.settings import Connection
from discorank.metrics.registry import load_metric
from discorank.rerank.decider import Decider
from discorank.rerank.engines.interface import Engine
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.mbr import MBRDecoder

from .waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    import openai

CONNECTING: dict[str, Any] = {
    "connections": 64,
    "timeout_seconds": PATIENCE_SECONDS,
    "retries": 2,
    "backoff_seconds": 0.0,
}


def send(method: str, url: str, **request: Any) -> httpx2.Response:
    """The reply to a request; without certificates, which take long to load."""
    with httpx2.Client(verify=False, trust_env=False, timeout=PATIENCE_SECONDS) as client:
        return client.request(method, url, **request)


def openai_client(url: str, key: str = "x") -> openai.OpenAI:
    """OpenAI's client, which neither retries nor loads certificates."""
    import openai

    http = openai.DefaultHttpxClient(verify=False)
    return openai.OpenAI(base_url=url, api_key=key, max_retries=0, http_client=http)


Upstreams = list[tuple[UpstreamSpec, Connection]]


def alone(connection: Connection) -> Upstreams:
    """One upstream without a name."""
    return [(UpstreamSpec("", connection.base_url), connection)]


class Proxy:
    """A running proxy.

    Args:
        server: the server.
        upstream: what stands behind it.
        reports: what it said for people.
    """

    def __init__(self, server: ProxyServer, upstream: ScriptedUpstream, reports: list[str]) -> None:
        self.server, self.upstream, self.reports = server, upstream, reports
        self.url = f"{server.address}/v1"


@contextmanager
def proxying(
    script: Script | None = None,
    *,
    deciders: dict[str, Decider] | None = None,
    engine: Engine | None = None,
    connection: dict[str, Any] | None = None,
    door: dict[str, Any] | None = None,
    url: str | None = None,
    **drawing: Any,
) -> Iterator[Proxy]:
    """A proxy on a free port before a scripted server; chrF chooses among 4 candidates if nothing else is said.

    `url` is the address of the server upstream, if it is not the scripted one.
    """
    chosen = deciders or {"chrf": MBRDecoder(utility="chrf", nbest=None)}
    with upstream_running(script) as upstream:
        settings = {**CONNECTING, "base_url": url or upstream.url, **(connection or {})}
        upstreams = alone(Connection(**settings))
        yield from _running(upstream, chosen, engine, upstreams, door or {}, drawing)


@contextmanager
def panelling(
    scripts: Mapping[str, Script],
    *,
    deciders: dict[str, Decider] | None = None,
    connection: dict[str, Any] | None = None,
    specs: Mapping[str, Mapping[str, Any]] | None = None,
    **drawing: Any,
) -> Iterator[tuple[Proxy, dict[str, ScriptedUpstream]]]:
    """A proxy on a free port before a scripted server of each name, and these servers.

    `specs` has the rest of what is given with each name.
    """
    chosen = deciders or {"chrf": MBRDecoder(utility="chrf", nbest=None)}
    with ExitStack() as stack:
        upstreams = {
            name: stack.enter_context(upstream_running(script)) for name, script in scripts.items()
        }
        models: Upstreams = []
        for name, upstream in upstreams.items():
            spec = UpstreamSpec(name, upstream.url, **(specs or {}).get(name, {}))
            settings = {**CONNECTING, "base_url": upstream.url, **(connection or {})}
            models.append((spec, Connection(**settings, key_variable=spec.key_variable)))
        first = next(iter(upstreams.values()))
        for proxy in _running(first, chosen, None, models, {}, drawing):
            yield proxy, upstreams


def _running(
    upstream: Any,
    deciders: dict[str, Decider],
    engine: Engine | None,
    upstreams: Upstreams,
    door: dict[str, Any],
    drawing: dict[str, Any],
) -> Iterator[Proxy]:
    """The proxy, stopped at the end."""
    reports: list[str] = []
    server = ProxyServer(
        upstreams,
        deciders,
        engine or LocalEngine(),
        DrawingSettings(**{"num_candidates": 4, **drawing}),
        DoorSettings(**{"port": 0, "grace_seconds": 5.0, "allow_host": ("x",), **door}),
        reports.append,
    )
    server.load()
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        yield Proxy(server, upstream, reports)
    finally:
        server.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


@contextmanager
def scoring(
    *metrics: Any,
    engine: Engine | None = None,
    door: dict[str, Any] | None = None,
    upstream: str | None = None,
    **settings: Any,
) -> Iterator[tuple[ProxyServer, str]]:
    """A server of scores on a free port, and its address; behind it a server upstream, if one is named."""
    utilities = {
        metric if isinstance(metric, str) else metric.signature(): load_metric(metric)
        for metric in metrics
    }
    server = ProxyServer(
        [] if upstream is None else alone(Connection(upstream, **CONNECTING)),
        {} if upstream is None else {"chrf": MBRDecoder(utility="chrf", nbest=None)},
        engine or LocalEngine(),
        DrawingSettings(num_candidates=4),
        DoorSettings(**{"port": 0, "grace_seconds": 5.0, **(door or {})}),
        lambda line: None,
        utilities,
        ScoreSettings(**settings),
    )
    server.load()
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        yield server, server.address
    finally:
        server.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
