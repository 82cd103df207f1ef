"""A campaign of Pearmut: segments to judge, as its JSON file, which ``pearmut add`` loads.

    {"campaign_id", "info": {"assignment": "task-based", "protocol", "users", ...}, "data": [documents of a user, ...]}
A document is a list of items {"item_id", "src", "tgt": {SYSTEM: text}}, the segments that stand in one document of the
systems file, in order. With one system at a time (ESA) every document comes once for each system; contrastive (cESA),
all systems stand side by side. Systems have the names of `blinded`, the same everywhere, and every user an order of
documents of their own. What users say comes back with ``--judged``: items have the ids of segments.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...metrics.errors import InputError
from ...rerank.training.segments_to_judge import Proposal
from .human_scores import blinded

Item = dict[str, Any]


@dataclass(frozen=True)
class CampaignStyle:
    """How a campaign is annotated.

    Args:
        annotators: how many; each sees every text.
        contrastive: all systems of a segment side by side.
    """

    annotators: int = 1
    contrastive: bool = False


def campaign_of(proposals: Sequence[Proposal], name: str, style: CampaignStyle) -> dict[str, Any]:
    """The campaign of segments.

    Raises:
        InputError: there is nothing to judge.
    """
    if not proposals:
        raise InputError("nothing is left to judge", where="campaign", fix="Judge other documents")
    documents = _contrastive(proposals) if style.contrastive else _one_at_a_time(proposals)
    data = []
    for number in range(style.annotators):
        own = list(documents)
        random.Random(number).shuffle(own)
        data.append(own)
    users = [f"annotator-{number + 1}" for number in range(style.annotators)]
    info = {
        "assignment": "task-based",
        "protocol": "cESA" if style.contrastive else "ESA",
        "users": users,
        "shuffle": True,
        "seed": 0,
    }
    return {"campaign_id": name, "info": info, "data": data}


def _of_documents(proposals: Sequence[Proposal]) -> list[list[Proposal]]:
    """The segments of every document together, in order."""
    by_document: dict[str, list[Proposal]] = {}
    for proposal in proposals:
        by_document.setdefault(proposal.document.id, []).append(proposal)
    return [sorted(own, key=lambda one: one.segment) for own in by_document.values()]


def _contrastive(proposals: Sequence[Proposal]) -> list[list[Item]]:
    return [
        [_item(one, list(one.document.systems)) for one in own] for own in _of_documents(proposals)
    ]


def _one_at_a_time(proposals: Sequence[Proposal]) -> list[list[Item]]:
    documents = []
    for own in _of_documents(proposals):
        for system in own[0].document.systems:
            documents.append([_item(one, [system]) for one in own])
    return documents


def _item(proposal: Proposal, systems: Sequence[str]) -> Item:
    document, i = proposal.document, proposal.segment
    item: Item = {"item_id": proposal.id}
    if document.source is not None:
        item["src"] = document.source[i]
    item["tgt"] = {blinded(system): document.systems[system][i] for system in systems}
    return item
