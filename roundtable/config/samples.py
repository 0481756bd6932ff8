"""Sample files that come with the package.

`workers.example.toml` in this package is a link to config/workers.example.toml at the top of the project, so there is one
text; a wheel holds a copy of it in the link's place.
"""

from __future__ import annotations

from importlib.resources import files


def sample_roster() -> str:
    """A roster with comments and no worker: what `config/workers.toml` is before its owner writes into it."""
    return files("roundtable.config").joinpath("workers.example.toml").read_text(encoding="utf-8")
