"""The board as a worker sees it: its tools over MCP, typed, and calls that have to be made."""
