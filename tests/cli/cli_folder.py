"""Commands as an owner runs them in a folder, and the files that they find there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from roundtable.cli.main import roundtable
from roundtable.config.tokens import digest_key

LEADER_TOKEN = "leader-token-that-nobody-else-knows"
ANNA_TOKEN = "anna-token-that-nobody-else-knows"


def run(*arguments: str, input: str | bytes | None = None, **environment: str) -> Result:
    """The command in this process. An exception that it lets through is the test's failure."""
    result = CliRunner().invoke(roundtable, arguments, env=environment, input=input)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def write_agents_file(folder: Path, content: Mapping[str, Any] | None = None) -> Path:
    """An agents.json: a leader by digest and anna by her token, unless told otherwise."""
    path = folder / "agents.json"
    if content is None:
        content = {
            digest_key(LEADER_TOKEN): {"name": "lead", "role": "leader"},
            ANNA_TOKEN: {"name": "anna", "role": "worker", "skills": ["code"]},
        }
    path.write_text(json.dumps(content))
    path.chmod(0o600)
    return path
