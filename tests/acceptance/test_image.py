"""What the image says of the program that it holds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from urllib.parse import urlsplit

import trio

from tests.acceptance.programs import ROOT, open_program, write_agents

PATIENCE_SECONDS = 60.0


def health_check(port: int) -> list[str]:
    """The command of HEALTHCHECK, with this Python and for this port."""
    text = (ROOT / "config" / "Dockerfile").read_text(encoding="utf-8")
    [command] = re.findall(r"^HEALTHCHECK .*\\\n +CMD (\[.*\])$", text, re.MULTILINE)
    python, *arguments = json.loads(command)
    assert python == "python"
    return [sys.executable, *(argument.replace(":8000/", f":{port}/") for argument in arguments)]


async def test_the_health_check_is_content_with_a_board_that_answers_and_with_nothing_else(tmp_path) -> None:
    write_agents(tmp_path, lead="leader")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("up", folder=tmp_path) as up:
            command = health_check(urlsplit(await up.url()).port or 0)
            assert (await trio.run_process(command)).returncode == 0
        found = await trio.run_process(command, check=False, stderr=subprocess.DEVNULL)
        assert found.returncode == 1
