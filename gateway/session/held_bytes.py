"""Bound on the bytes of incomplete requests, over all clients.

A produce is forwarded as it comes; all other requests are handled when they are complete, and may have
`max_request_bytes`. Ten thousand clients that each send all but the last byte must not fill the memory.
"""

from __future__ import annotations


class HeldBytes:
    """Shared by all sessions of a gateway.

    :ivar most: limit in bytes.
    :ivar bytes: bytes held now.
    """

    __slots__ = ("bytes", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0

    def add(self, count: int) -> bool:
        """True if there is room for the bytes. They are counted in any case, until they are released."""
        self.bytes += count
        return self.bytes <= self.most

    def let_go(self, count: int) -> None:
        self.bytes -= count
