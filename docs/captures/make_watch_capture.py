"""Pictures of `roundtable watch` and `roundtable status` at work: `python -m docs.captures.make_watch_capture`.

A real `up` runs in a temporary folder with four workers and a scripted endpoint on loopback. One worker gets answers, one
is told to wait, one has a key that is refused, one has used up its calls. The two commands run in a terminal of
their own, and what they write to it is turned into pictures: nothing in them is drawn by this script.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trio
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from tests.acceptance.programs import COMMAND, ROOT, open_program, write_agents, write_roster
from tests.acceptance.seats import SdkSeat, sdk_seat
from tests.supervisor.scripted_endpoint import Request, completion, open_endpoint, response

FOLDER: Final = Path(__file__).parent
COLUMNS, LINES = 132, 40
SVG_FORMAT: Final = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Rich's own but for the fonts that it would fetch: a picture of ours asks nobody for anything."""
PATIENCE_SECONDS: Final = 120.0
CALL_SECONDS: Final = 4.0

ANSWER: Final = "Here is the draft, three paragraphs, as asked."
TASKS: Final = (
    ("Draft the release notes for 0.2", "writing"),
    ("Summarise last week's issues", "writing"),
    ("Translate the manual into French", "french"),
    ("Check the licence headers", "review"),
    ("Name the three slowest tests", "numbers"),
    ("Plot the download numbers", "numbers"),
    ("Write the welcome mail", "writing"),
    ("Write the farewell mail", "writing"),
)
WORKERS: Final = {"deepseek": "writing", "mistral": "french", "qwen": "review", "gemma": "numbers"}


async def _endpoint(request: Request, stream: trio.SocketStream) -> None:
    path = request.line.split()[1]
    if path.startswith("/mistral"):
        await stream.send_all(response(429, b"{}", retry_after="420"))
    elif path.startswith("/qwen"):
        await stream.send_all(response(401, b"{}"))
    else:
        await trio.sleep(CALL_SECONDS)
        await stream.send_all(response(200, completion(ANSWER)))


async def _run_in_terminal(folder: Path, command: str, is_enough: Callable[[str], bool]) -> str:
    """What the command has on its terminal as soon as that is enough, or at its end; then Ctrl-C."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = await trio.lowlevel.open_process(
        [*COMMAND, command],
        cwd=folder,
        env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    written, enough = b"", ""
    try:
        while True:
            await trio.lowlevel.wait_readable(ours)
            try:
                part = os.read(ours, 65_536)
            except OSError:
                break  # the command has ended
            written += part
            # Where it goes back to the top of the screen it draws anew; what is before that is a whole picture.
            whole = written.decode("utf-8", "replace").split("\x1b[H")[:-1]
            if not enough and whole and is_enough(whole[-1]):
                enough = whole[-1]
                os.write(ours, b"\x03")
        await process.wait()
    finally:
        os.close(ours)
    return enough or written.decode("utf-8", "replace")


def _save(name: str, screen: str) -> None:
    """As a picture, and as text for whoever has only that."""
    picture = Text.from_ansi(re.sub(r"\x1b\[\?[0-9]+[hl]|\x1b\[[0-9]*[A-HJK]", "", screen).replace("\r", ""))
    picture.rstrip()
    with (FOLDER / f"{name}.txt").open("w", encoding="utf-8") as file:
        file.write("\n".join(line.rstrip() for line in picture.plain.splitlines()) + "\n")
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(
            record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor"
        )
        console.print(picture, no_wrap=True, crop=True)
        console.save_svg(str(FOLDER / f"{name}.svg"), title=f"roundtable {name}", code_format=SVG_FORMAT)


async def _play(lead: SdkSeat, anna: SdkSeat) -> None:
    """Enough for every part of the picture to have something in it."""
    ids = [
        (await lead.call("create_task", title=title, description="d", required_skill=skill))["task_id"]
        for title, skill in TASKS
    ]
    await lead.call("create_task", title="Publish the release", description="d", depends_on=[ids[0], ids[3]])
    mascot = await lead.call("create_task", title="Name the mascot", description="d", assignee="anna")
    await anna.call(
        "post_message", task_id=mascot["task_id"], kind="help_request", body="An animal, or a thing?"
    )
    dropped = await lead.call("create_task", title="Fax the announcement", description="d")
    await lead.call("cancel_task", task_id=dropped["task_id"], reason="nobody has a fax")
    cursor, submitted = None, False
    while not submitted:
        news = await lead.call("wait_for_updates", cursor=cursor)
        cursor = news["cursor"]
        submitted = any(
            (event["event"], event.get("task_id")) == ("submitted", ids[0]) for event in news["updates"]
        )
    await lead.call("review_task", task_id=ids[0], verdict="accept")


async def main() -> None:
    with TemporaryDirectory(prefix="roundtable-capture-") as name, trio.fail_after(PATIENCE_SECONDS):
        folder = Path(name)
        async with open_endpoint(_endpoint) as endpoint:
            base = endpoint.url.removesuffix("/v1")
            workers = [
                {
                    "name": name,
                    "model": f"{name}-small",
                    "base_url": f"{base}/{name}/v1",
                    "skills": [skill],
                    "max_calls_per_hour": 1 if name == "gemma" else 30,
                    "max_tokens_per_day": 200_000,
                }
                for name, skill in WORKERS.items()
            ]
            write_roster(folder, {"grace_seconds": 0.5}, *workers)
            tokens = write_agents(folder, lead="leader", anna="worker")
            async with (
                open_program("up", folder=folder) as up,
                sdk_seat(await up.url(), tokens["lead"]) as lead,
                sdk_seat(await up.url(), tokens["anna"]) as anna,
            ):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_play, lead, anna)

                    def shows_all(screen: str) -> bool:
                        words = ("cooling down", "parked", "at its cap", "working on", "accepts task 1")
                        return all(word in screen for word in words)

                    _save("watch", await _run_in_terminal(folder, "watch", shows_all))
                _save("status", await _run_in_terminal(folder, "status", lambda _: False))


if __name__ == "__main__":
    trio.run(main)
