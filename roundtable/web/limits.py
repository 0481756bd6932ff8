"""Every size and time of the HTTP edge, and which of them an owner or a test may set."""

from __future__ import annotations

from dataclasses import dataclass

from roundtable.rules.limits import BODY_BYTES, CALLS_PER_MINUTE

MAX_HEAD_BYTES = 16 * 1024
"""The longest request line with headers. Without it one connection could fill the memory."""

REQUEST_SECONDS = 30.0
"""From the first byte of a request to its last. Without it a slow sender holds a connection for ever."""

UNKNOWN_IDLE_SECONDS = 5.0
"""How long a connection that has shown no valid token may take to send the head of a request."""

TRUSTED_IDLE_SECONDS = 75.0
"""How long a connection that has shown a valid token may stay silent. Clients keep theirs for about a minute."""

HANDSHAKE_SECONDS = 10.0
"""From the first byte to an agreed TLS session: several round trips on a bad line."""

SEND_SECONDS = 5.0
"""How long one write may wait for a client that does not read. Without it such a client holds a stop for ever."""

SEND_PIECE_BYTES = 16 * 1024
"""A long answer is written in pieces of this size, each with its own deadline."""

LINGER_SECONDS = 1.0
"""How long a closed connection still swallows what its client sends.

Closing with unread bytes resets the connection, and the reset can overtake the
answer: a client that was refused would see an error of the network instead of the reason.
"""

LINGER_BYTES = 4 * 1024 * 1024
"""How much it swallows at most in that time."""

STOP_SECONDS = 3.0
"""How long answers under way may take once the server stops. The whole stop has 5 s."""

STOP_SEND_SECONDS = 1.0
"""How long one write may take once the server stops, and how long a request that is half here may still arrive."""

CLOSE_SECONDS = 0.5
"""How long the farewell of a TLS session may take."""

READY_SECONDS = 3.0
"""How long /readyz waits for the board."""

FAILED_ATTEMPTS_PER_MINUTE = 20
"""Requests without a valid token that one address may make in a minute before it is told to wait."""

MAX_ADDRESSES = 4096
"""Addresses whose failed attempts are remembered. Without a bound a flood of addresses fills the memory."""

DOOR_RATE_FACTOR = 10
"""How far over its limit of calls a token may go, counting every request, before the door refuses it."""

MAX_AGENTS_RATED = 4096
"""Agents whose requests are counted at the door; more than any board has."""

MINUTE_SECONDS = 60.0
"""The stretch of time that the rates above mean."""

ADDRESS_SHARE = 4
"""One address may hold this fraction (a quarter) of the connections that have shown no valid token."""

SPARE_FILES = 128
"""Open files for everything but connections: database, listeners, threads' wake-up pipes, the pool."""


@dataclass(frozen=True, slots=True)
class WebLimits:
    """What the owner's settings, or a test in a hurry, may set. Times in seconds.

    `rate_limit_per_minute` is the limit of tool calls per token (0: none); the door refuses at ten times that.
    `allowed_hosts` are further values of the Host header, `host` for any port or `host:port`.
    """

    unknown_connections: int = 256
    max_connections: int = 1024
    rate_limit_per_minute: int = CALLS_PER_MINUTE
    failed_attempts_per_minute: int = FAILED_ATTEMPTS_PER_MINUTE
    allowed_hosts: tuple[str, ...] = ()
    max_body_bytes: int = BODY_BYTES
    request_seconds: float = REQUEST_SECONDS
    unknown_idle_seconds: float = UNKNOWN_IDLE_SECONDS
    trusted_idle_seconds: float = TRUSTED_IDLE_SECONDS
    handshake_seconds: float = HANDSHAKE_SECONDS
    send_seconds: float = SEND_SECONDS
    linger_seconds: float = LINGER_SECONDS
    stop_seconds: float = STOP_SECONDS
    stop_send_seconds: float = STOP_SEND_SECONDS
    ready_seconds: float = READY_SECONDS

    def __post_init__(self) -> None:
        """Raise ValueError for a cap that would let nobody in."""
        if self.unknown_connections < 1 or self.max_connections < 1:
            raise ValueError("unknown_connections and max_connections are at least 1")
        if self.rate_limit_per_minute < 0:
            raise ValueError("rate_limit_per_minute is at least 0")

    @property
    def unknown_per_address(self) -> int:
        return max(1, self.unknown_connections // ADDRESS_SHARE)
