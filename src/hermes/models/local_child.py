"""The process that a local model runs in: one llama.cpp server, until its parent ends.

Started as `python -m hermes.models.local_child`, with a JSON object on its standard input; its one
line of standard output is a JSON object too: `{"address": …}` once the model is loaded and
answers, or `{"error": …}`. Standard input stays open as long as the parent lives.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import time
from importlib import import_module
from typing import Any

_EVERY_S = 1.0


def main() -> int:
    """Serve until the parent is gone; 1 if the model cannot be served."""
    parent = os.getppid()
    order = json.loads(sys.stdin.buffer.readline())
    _end_with(sys.stdin.fileno())
    try:
        server = _serve(order)
    except Exception as exc:  # whatever the library raises is told to the parent
        _say({"error": f"{exc}"})
        return 1
    _say({"address": server.listening_address})
    while os.getppid() == parent:
        time.sleep(_EVERY_S)
    os._exit(0)  # the server's threads would be waited for


def _end_with(stdin: int) -> None:
    """End when the other side of the pipe is closed, as it is when the parent is killed.

    The kernel's own signal, since the library holds the interpreter lock while it loads a model.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(stdin, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(stdin, fcntl.F_GETFL)
    fcntl.fcntl(stdin, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([stdin], [], [], 0)[0]:  # it was closed before the signal was asked for
        os._exit(0)


def _serve(order: dict[str, Any]) -> Any:
    # By name: it has no types. Loaded here, so that a fault of it is told like any other.
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = order["path"]
    params.model_alias = {order["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [order["key"]]
    params.n_ctx = order["window"]
    params.n_predict = order["max_output"]
    params.n_parallel = 1
    # Its threads wait for each other at every step: one core that others use slows down all.
    params.cpuparams.n_threads = max(1, len(os.sched_getaffinity(0)) - 1)
    params.sampling.temp = 0.0
    params.sampling.seed = 1
    params.ui = False
    params.cors_origins = ""
    return xllamacpp.Server(params)


def _say(line: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
