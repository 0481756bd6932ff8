"""Roundtable: a task board over MCP where agents of different vendors work together.

The packages are rings, and imports point inward only:

    cli -> web, tools, config -> board -> store -> rules

`rules` is pure; `store` is synchronous SQLite; `board` is the one actor that
changes state; `tools` speaks MCP; `web` speaks HTTP; `config` reads what the
owner wrote; `cli` builds it all. tests/unit/test_imports.py holds this true.
"""

__version__ = "0.1.0"
