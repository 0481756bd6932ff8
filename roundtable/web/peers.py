"""Who is at the other end of each connection, and how many there may be."""

from __future__ import annotations

import ipaddress
from collections import Counter
from math import inf

from roundtable.web.limits import WebLimits
from roundtable.web.tokens import TokenTable

IPV6_SITE_BITS = 64
"""One household or machine has a whole /64, so counting single IPv6 addresses would count nothing."""


def address_key(host: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 of an IPv6 one."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_SITE_BITS), strict=False))


class Admission:
    """How many connections of one listener are open, known and unknown.

    A connection is unknown until it has shown a valid token. Each kind has its cap;
    of the unknown ones, one address may hold a quarter.
    """

    def __init__(self, limits: WebLimits) -> None:
        self._limits = limits
        self._unknown_by_address: Counter[str] = Counter()
        self._unknown = 0
        self._trusted = 0

    @property
    def unknown(self) -> int:
        return self._unknown

    @property
    def trusted(self) -> int:
        return self._trusted

    def __repr__(self) -> str:
        return f"<Admission {self._unknown} unknown, {self._trusted} trusted>"

    def enter(self, address: str) -> bool:
        """Count an unknown connection from this address, or return False: there is no room."""
        if self._unknown >= self._limits.unknown_connections:
            return False
        if self._unknown_by_address[address] >= self._limits.unknown_per_address:
            return False
        self._unknown += 1
        self._unknown_by_address[address] += 1
        return True

    def promote(self, address: str) -> bool:
        """Count an unknown connection as trusted from now on, or return False: there is no room."""
        if self._trusted >= self._limits.max_connections:
            return False
        self._leave_unknown(address)
        self._trusted += 1
        return True

    def leave(self, address: str, *, trusted: bool) -> None:
        """Forget a connection that has ended."""
        if trusted:
            self._trusted -= 1
        else:
            self._leave_unknown(address)

    def _leave_unknown(self, address: str) -> None:
        self._unknown -= 1
        self._unknown_by_address[address] -= 1
        if not self._unknown_by_address[address]:
            del self._unknown_by_address[address]


class Peer:
    """The other end of one connection, as the doors see it: `scope["state"]["peer"]`.

    `tokens` are those that its listener takes. `request_deadline` is the time of
    trio's clock by which the present request must be here whole.
    """

    def __init__(self, address: str, tokens: TokenTable, admission: Admission) -> None:
        self.address = address
        self.tokens = tokens
        self.request_deadline = inf
        self._admission = admission
        self._trusted = False

    @property
    def trusted(self) -> bool:
        """Whether it has shown a valid token."""
        return self._trusted

    def trust(self) -> bool:
        """Note that it has shown a valid token. False: there are too many, close it."""
        if not self._trusted:
            self._trusted = self._admission.promote(self.address)
        return self._trusted

    def leave(self) -> None:
        self._admission.leave(self.address, trusted=self._trusted)
