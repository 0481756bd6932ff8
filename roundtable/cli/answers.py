"""What an HTTP status of the board means to whoever connects, in one sentence."""

from __future__ import annotations

from typing import Final

from roundtable.cli.output import EXIT_REFUSED, EXIT_UNREACHABLE

_SENTENCES: Final = {
    400: "The server takes this for no proper request (400): something between here and the board changes requests.",
    401: "The token is refused (401): it is of no agent of this board, or it was rotated or revoked; "
    "`roundtable token rotate NAME` makes a new one.",
    403: "The board refuses an Origin header (403): something between here and the board adds one.",
    404: "There is no board at this path (404): the address ends in /mcp.",
    405: "This path takes no POST (405): the address ends in /mcp.",
    408: "The request did not arrive in time (408): the way to the board is too slow or loses data.",
    413: "The request is too large for the server (413).",
    415: "The server refuses JSON (415): this is no MCP server.",
    421: "The board does not know itself by this name (421): add the name to ROUNDTABLE_ALLOWED_HOSTS where the board runs.",
    429: "Too many requests or failed attempts from here (429): wait a minute.",
    502: "A proxy answers, and the board behind it does not (502): start the board, or mend where the proxy looks for it.",
    503: "The server is stopping or its board has stopped (503): start it again.",
    504: "A proxy answers, and the board behind it took too long (504).",
}


def code_for(status: int) -> int:
    """The exit code for such an answer: a refusal, or no answer of a board at all."""
    return EXIT_REFUSED if 400 <= status < 500 else EXIT_UNREACHABLE


def sentence_for(status: int) -> str:
    """Why a request was answered with this status, and what to do."""
    if 300 <= status < 400:
        return f"The server sends elsewhere ({status}): give the address that it leads to, with https:// if it has TLS."
    return _SENTENCES.get(status, f"The server answers with HTTP status {status}, which no board does.")
