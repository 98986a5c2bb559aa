"""How many bytes of requests that are not whole yet may be held, of all clients together.

A produce is sent on as it comes; all else is handled when all of it is there, and may have `max_request_bytes`. Ten
thousand clients that each send all of one but its last byte must not fill the memory.
"""

from __future__ import annotations


class HeldBytes:
    """Of all sessions of a gateway.

    :ivar most: bytes; :ivar bytes: that are held now.
    """

    __slots__ = ("bytes", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0

    def add(self, count: int) -> bool:
        """Whether there is room for that many more. They are counted in any case, until they are let go."""
        self.bytes += count
        return self.bytes <= self.most

    def let_go(self, count: int) -> None:
        self.bytes -= count
