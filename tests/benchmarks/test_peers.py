"""Peers of benchmarks: a module in a process of its own, found from wherever the benchmark runs."""

from __future__ import annotations

import sys

import pytest

from benchmarks.support.peers.process import Peer


def test_a_peer_starts_and_says_what_it_lacks(capfd: pytest.CaptureFixture[str]) -> None:
    peer = Peer(sys.executable, "benchmarks.support.peers.bertscore")
    peer.close()
    assert "No module named 'benchmarks" not in capfd.readouterr().err
