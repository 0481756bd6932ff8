"""The child process: llama.cpp's server on loopback. Started by path, by server.py alone.

Standard output is for one line, the port, written when the model answers;
llama.cpp's own talk goes to standard error. It ends when its standard input
does, whatever it is about then, which is how it learns that the parent has
gone, kill -9 included.
(Linux's parent-death signal is of no use here: it is tied to the thread that
started the child, and that is a pool thread that ends while the program lives.)
"""

from __future__ import annotations

import argparse
import os
import threading
import traceback
from contextlib import suppress

import xllamacpp


def _start(
    weights: str, alias: str, port: int, threads: int, context_tokens: int, slots: int
) -> xllamacpp.Server:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = weights
    parameters.model_alias = {alias}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_parallel = slots
    parameters.n_ctx = context_tokens * slots
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = threads
    # The default keeps up to 8 GiB of old prompts in memory.
    parameters.cache_ram_mib = 0
    parameters.cache_idle_slots = False
    parameters.verbosity = 2
    # A model this small repeats itself and copies what it reads for ever; this penalty
    # (on sequences of tokens that stood before) makes it go on, at temperature 0 too.
    parameters.sampling.dry_multiplier = 0.8
    parameters.sampling.dry_base = 1.75
    parameters.sampling.dry_allowed_length = 4
    parameters.sampling.dry_penalty_last_n = context_tokens
    # Nor does it know when it is done: its first paragraph is its answer.
    parameters.antiprompt = ["\n"]
    # Only the API: no page, no look into other callers' prompts, no website as a caller.
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.cors_origins = "http://127.0.0.1"
    parameters.cors_credentials = False
    return xllamacpp.Server(parameters)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("weights")
    parser.add_argument("--alias", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--context-tokens", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    options = parser.parse_args()
    # llama.cpp writes to descriptor 1 as well: keep the pipe for ourselves.
    report = os.dup(1)
    os.dup2(2, 1)
    # In a thread of its own, since the parent may go while the model is loaded, or while that is stuck.
    watch = threading.Thread(target=_end_with_parent, daemon=True)
    watch.start()
    try:
        server = _start(**vars(options))
    except Exception:
        traceback.print_exc()
        # Ended in the usual way, the interpreter waits for threads of the library that may never end.
        os._exit(1)
    port = server.listening_address.rpartition(":")[2]
    with suppress(BrokenPipeError):  # nobody is there to read it any more
        os.write(report, f"{port}\n".encode())
    watch.join()


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    # At once: the server's own clean-up waits for requests that nobody reads any more.
    os._exit(0)


if __name__ == "__main__":
    main()
