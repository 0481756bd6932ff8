"""A process that holds the lock of argv[1] until it is killed."""

import sys
import time
from pathlib import Path

from roundtable.store.lock import OwnerLock

with OwnerLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
