"""How a run uses Ray: which cluster, how many workers of which size, and when it gives up."""

from __future__ import annotations

from typing import Annotated

from ....metrics.spec.checked_settings import Field, settings

Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@settings
class RaySettings:
    """Workers of a Ray engine.

    Args:
        address: the cluster, such as auto or host:6379; without one, Ray is started on this machine and stopped again.
        actors: how many workers; as many as the resources hold if not given.
        cpus_per_actor: CPU cores, and so threads, of a worker.
        gpus_per_actor: GPUs of a worker; one where there are any if not given.
        compare_actors: how many workers without a GPU compare what the others represent; with none, all do both.
        retries: how often a list that was alone on a worker when it died is tried again before it is an error record.
        restarts: how often a worker and its successors may die in a row, with nothing finished by any, before the run
            stops.
        start_seconds: how long the run waits when it has no worker at all.
        block_seconds: how long a worker may take over one block before it counts as dead.
        heartbeat_seconds: how long a worker may leave a call unanswered, at work or not, before it counts as dead.
    """

    address: str | None = None
    actors: Annotated[int, Field(ge=1)] | None = None
    cpus_per_actor: Amount = 1.0
    gpus_per_actor: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    compare_actors: Annotated[int, Field(ge=0)] = 0
    retries: Annotated[int, Field(ge=0)] = 2
    restarts: Annotated[int, Field(ge=0)] = 10
    start_seconds: Amount = 300.0
    block_seconds: Amount = 3600.0
    heartbeat_seconds: Amount = 60.0
