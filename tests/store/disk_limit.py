"""A board on a disk that takes nothing more, in a process of its own: a limit of file size holds for all its files.

Prints one line of JSON for each batch.
"""

import json
import resource
import sys
from pathlib import Path

import structlog
from scripted_store import ANN, LEAD, Store

from roundtable.rules.commands import ClaimTask, CreateTask, ListTasks, WhoAmI

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
store = Store(Path(sys.argv[1]))


def run(*calls):
    codes = []
    for outcome in store.run(*calls).outcomes:
        codes.append(outcome.error.code.value if outcome.error else "ok")
    print(json.dumps(codes), flush=True)


def create(text="D"):
    return store.call(LEAD, CreateTask("T", text))


run(create(), create())
_, unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (store.path.with_name("board.db-wal").stat().st_size, unlimited))
run(
    create(),
    store.call(ANN, ClaimTask(1)),
    store.call(ANN, ListTasks()),
    store.call(ANN, CreateTask("T", "D")),
)
run(store.call(ANN, WhoAmI()))
print(json.dumps(store.executor.trouble), flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))
run(create(), store.call(ANN, ClaimTask(1)))
print(json.dumps(store.executor.trouble), flush=True)
store.close()
