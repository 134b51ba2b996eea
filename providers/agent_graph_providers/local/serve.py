"""The process a model runs in: started with this file's path, told what to load by one line, ended by the end of its input.

It is no module of the package: it imports llama.cpp and nothing else, so that it is up in a tenth of a second. The first
line of standard input is a JSON object (`path`, `name`, `context`, `threads`, `key`); the first line of standard output is
one as well: `address` (a URL on loopback) and `guided` (llguidance is built in), or `error`. From then on it serves until
standard input ends, which happens however the parent process ends.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

__all__: list[str] = []


def _start(order: dict[str, Any]) -> Any:
    from importlib import import_module

    xllamacpp: Any = import_module('xllamacpp')  # it has no types
    params = xllamacpp.CommonParams()
    params.model.path = order['path']
    params.model_alias = {order['name']}
    params.n_ctx = order['context']
    params.n_parallel = 1
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = order['threads']
        cpu.poll = 0  # threads that wait by spinning are 4-10 times slower where the cores are busy
    params.hostnames = ['127.0.0.1']
    params.port = 0
    params.n_threads_http = 4
    params.api_keys = [order['key']]
    params.cors_origins = 'null'  # no web page may ask
    params.ui = False
    params.endpoint_slots = False
    params.warmup = False
    params.cache_ram_mib = 0
    params.verbosity = 1  # errors only
    return xllamacpp.Server(params), xllamacpp.json_schema_to_grammar('{}').startswith('%llguidance')


def _main() -> None:
    order = json.loads(sys.stdin.readline())
    server = None
    try:
        server, guided = _start(order)
        answer = {'address': server.listening_address, 'guided': guided}
    except Exception as error:  # whatever it is, the parent tells it
        answer = {'error': f'{type(error).__name__}: {error}'}
    sys.stdout.write(json.dumps(answer) + '\n')
    sys.stdout.flush()
    if server is not None:
        sys.stdin.read()
    # Nothing is to be saved, and taking the server down in good order would wait for the answer it is writing.
    os._exit(0)


if __name__ == '__main__':
    _main()
