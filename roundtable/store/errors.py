"""What can be wrong with the store itself."""

from __future__ import annotations


class StoreError(Exception):
    """The database cannot be used; the text is one sentence for the owner."""
