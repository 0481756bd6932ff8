"""Stands in for the real llama.cpp. The "weights" file is JSON that says how to behave.

Every start connects to `report_port` and sends one line about itself; the
connection then lives as long as the process, and a byte sent over it kills it.
"""

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace


class CommonParams(SimpleNamespace):
    def __init__(self) -> None:
        super().__init__(
            model=SimpleNamespace(),
            cpuparams=SimpleNamespace(),
            cpuparams_batch=SimpleNamespace(),
            sampling=SimpleNamespace(),
            port=-1,
        )


class Server:
    def __init__(self, parameters: CommonParams) -> None:
        script = json.loads(Path(parameters.model.path).read_text())
        print("llama.cpp talks on standard output too", flush=True)
        if script.get("crash"):
            sys.stderr.write("noise\nfailed to load \x1b[31mmodel\n")
            sys.exit(3)
        self._port = parameters.port or 43210
        self._owner = socket.create_connection(("127.0.0.1", script["report_port"]))
        about = {
            "pid": os.getpid(),
            "port": parameters.port,
            "hostnames": parameters.hostnames,
            "ui": parameters.ui,
            "threads": parameters.cpuparams.n_threads,
        }
        self._owner.sendall(json.dumps(about).encode() + b"\n")
        threading.Thread(target=self._die_on_order, daemon=True).start()
        # Like the threads of the real one: an interpreter that ends by itself waits for it, and so never ends.
        threading.Thread(target=threading.Event().wait).start()
        if script.get("stuck"):
            time.sleep(3600)
        parent = os.getppid()
        while script.get("slow") and os.getppid() == parent:
            time.sleep(0.01)

    @property
    def listening_address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def _die_on_order(self) -> None:
        if self._owner.recv(1):
            os._exit(7)
