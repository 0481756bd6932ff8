"""The token in the Authorization header."""

from __future__ import annotations

import re
from collections.abc import Sequence

_BEARER = re.compile(rb"bearer +([\x21-\x7e]+)", re.IGNORECASE)


def bearer_token(values: Sequence[bytes]) -> bytes | None:
    """The token of the only Authorization header, or None where there is no such thing.

    A token is visible ASCII without spaces.
    """
    if len(values) != 1:
        return None
    match = _BEARER.fullmatch(values[0])
    return match[1] if match else None
