"""The worker in a process of `ProcessEngine`: that of Ray's actors, fed over a pipe.

    python -m discorank.rerank.engines.process_worker DESCRIPTOR

Messages are (name of a method of `Worker`, arguments), but for the first: when garbage is looked for, and the worker's
own arguments. Each is answered by what the method returns. A thread reads them, so that the sender is never kept
waiting; it ends the process when the other end of the pipe is gone, whatever the worker is at.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any

from .ray.worker import Worker


def answer_messages(connection: Connection[Any, Any]) -> None:
    """Answers messages until the pipe is closed."""
    gc.freeze()  # what is there stays
    messages: SimpleQueue[Any] = SimpleQueue()
    try:
        Thread(target=_read, args=(connection, messages), daemon=True).start()
    except RuntimeError as error:  # the system has no more threads
        sys.stderr.write(f"discorank: a worker ends: {error}\n")
        os._exit(1)
    threshold, *arguments = messages.get()
    gc.set_threshold(*threshold)
    worker = Worker(*arguments)
    while True:
        method, arguments = messages.get()
        connection.send(getattr(worker, method)(*arguments))


def _read(connection: Connection[Any, Any], messages: SimpleQueue[Any]) -> None:
    """Puts all that comes into the queue; what cannot be read ends the process too."""
    code = 1
    try:
        while True:
            messages.put(connection.recv())
    except (EOFError, OSError):
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    answer_messages(Connection(int(sys.argv[1])))
