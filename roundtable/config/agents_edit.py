"""Changing one entry of agents.json, with all others left as they stand."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from roundtable.config.agents import AgentsFile, load_agents, parse_agents
from roundtable.config.errors import ConfigError, shown
from roundtable.config.files import UnreadableFileError, read_text
from roundtable.config.tokens import digest_key
from roundtable.rules.agents import Agent

Content = dict[str, Any]
"""The object of the file: token or digest -> entry."""

Edit = Callable[[Content], Content]
"""Makes the new content of the old. Raises ConfigError."""

Check = Callable[[AgentsFile], object]
"""Looks at the agents as they would be. Raises ConfigError to keep things as they are."""

Undo = Callable[[], None]
"""Puts the old content back, unless somebody has changed the file since. Raises ConfigError."""

_LOCK_TRIES: Final = 50
_LOCK_PAUSE_SECONDS: Final = 0.1


def add_agent(agent: Agent, token: str) -> Edit:
    """A new entry behind all others."""

    def edit(content: Content) -> Content:
        entry = {"name": agent.name, "role": agent.role.value, "skills": list(agent.skills)}
        return {**content, digest_key(token): entry}

    return edit


def replace_token(name: str, token: str) -> Edit:
    """Another token for the agent, at the same place."""

    def edit(content: Content) -> Content:
        old = _key_of(content, name)
        return {digest_key(token) if key == old else key: entry for key, entry in content.items()}

    return edit


def remove_agent(name: str) -> Edit:
    def edit(content: Content) -> Content:
        gone = _key_of(content, name)
        return {key: entry for key, entry in content.items() if key != gone}

    return edit


def edit_agents(path: Path, edit: Edit, check: Check) -> Undo:
    """Change the file: whole or not at all, for its owner's eyes only, and only if it is right before and after.

    `check` sees what it would be. Raises ConfigError with the loader's own words, the check's, or with what is in the way.
    """
    load_agents(path)
    name = shown(str(path))
    # a link stays one: what it leads to is replaced
    target = path.resolve()
    with _alone(target, name):
        load_agents(path)
        before = read_text(target).text
        after = json.dumps(edit(json.loads(before)), indent=2, ensure_ascii=False) + "\n"
        check(AgentsFile(parse_agents(after, name)))
        _replace(target, after)

    def undo() -> None:
        with _alone(target, name):
            if read_text(target).text == after:
                _replace(target, before)

    return undo


def _key_of(content: Content, name: str) -> str:
    keys = [key for key, entry in content.items() if entry["name"] == name]
    if not keys:
        known = ", ".join(shown(entry["name"]) for entry in content.values())
        raise ConfigError([f"there is no agent {shown(name)}; there are {known}"])
    return keys[0]


@contextmanager
def _alone(target: Path, name: str) -> Iterator[None]:
    """Nobody else who edits so is at work meanwhile. Raises ConfigError, also for an OSError of the body.

    The folder is what is locked: the file itself gets replaced.
    """
    try:
        descriptor = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError([f"{name} cannot be changed: {error.strerror}"]) from None
    try:
        for _ in range(_LOCK_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in {errno.EAGAIN, errno.EACCES}:
                    raise
            time.sleep(_LOCK_PAUSE_SECONDS)
        else:
            raise ConfigError([f"{name} is being changed by another command; try again"])
        yield
    except OSError as error:
        raise ConfigError([f"{name} cannot be written: {error.strerror}"]) from None
    except UnreadableFileError as error:
        raise ConfigError([f"{name} {error}"]) from None
    finally:
        os.close(descriptor)


def _replace(target: Path, content: str) -> None:
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            facts = target.stat()
            if facts.st_uid != os.geteuid():
                # the server reads it as its own; who may not give it away is told so
                os.fchown(file.fileno(), facts.st_uid, facts.st_gid)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink()
        raise
