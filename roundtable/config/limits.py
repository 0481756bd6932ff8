"""Bounds of the configuration. What a caller of the board may send is bounded by the rules' own limits."""

from __future__ import annotations

from typing import Final

MAX_FILE_BYTES: Final = 1 << 20
"""Of agents.json and of .env. Without it a wrong path (a database, a device) would be read whole into memory."""

MAX_AGENTS: Final = 200
"""Of both files together. Without it one list of the agents would not fit into one reply."""

MAX_DIRECTORY_BYTES: Final = 48 * 1024
"""Names, roles and skills of all agents as JSON. A list of the agents is one reply of at most 64 KiB, and each
agent's row also says when it was last seen and what it holds."""

MAX_SKILLS: Final = 20

MIN_TOKEN_CHARS: Final = 24
"""A shorter one could be guessed."""

MAX_TOKEN_CHARS: Final = 512
"""A longer one would not fit into the headers that every client and proxy lets through."""

MAX_PATH_CHARS: Final = 4096

MAX_PORT: Final = 65_535

MIN_UNKNOWN_CONNECTIONS: Final = 4
"""One address may have a quarter of them, and a quarter of fewer is none."""

MAX_CONNECTIONS: Final = 65_536
"""More connections than this need more file descriptors than systems give to one process."""

MAX_RATE_LIMIT_PER_MINUTE: Final = 100_000
MAX_CLAIMS_PER_WORKER: Final = 100
"""A refused claim lists all that its caller holds."""

MAX_WAITS_PER_TOKEN: Final = 100
