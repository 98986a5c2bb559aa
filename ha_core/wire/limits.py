"""Bounds on everything that a peer can make us count or store."""

from dataclasses import dataclass, replace
from functools import lru_cache

from ha_core.wire.errors import LocalProtocolError


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Sizes in bytes, counts in elements. Every field must be positive (`LocalProtocolError` otherwise).

    max_array bounds one array, max_elements all arrays of one message together: nested arrays of tiny elements would
    otherwise turn each byte of a frame into hundreds of bytes of objects. The size defaults are the brokers' own
    (`socket.request.max.bytes`); a response may exceed a consumer's `fetch.max.bytes` by one batch. max_login_bytes
    bounds a request of a client that has not logged in yet. max_partitions bounds the topics and the partitions of one
    produce, twice as much both together of one fetch, and max_inline all elements of another request: 8 MB that name a
    million partitions occupy the offload thread, for which others wait, as long as a lease lasts. One request may
    create max_created_partitions, the bound of controllers from Kafka 4 on; older ones run out of memory.
    """

    max_request_bytes: int = 104_857_600
    max_response_bytes: int = 268_435_456
    max_array: int = 1_000_000
    max_elements: int = 4_000_000
    max_string: int = 32_767
    max_sasl_bytes: int = 65_536
    max_login_bytes: int = 131_072
    max_partitions: int = 20_000
    max_inline: int = 100_000
    max_created_partitions: int = 10_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value <= 0:
                raise LocalProtocolError(f"limit {name}={value}: give a positive number")


DEFAULT_LIMITS = WireLimits()


FEW = 400
"""Elements that can be read, judged and answered in some milliseconds."""
PARTITIONS_AT_ONCE = 500
"""Partitions of a produce that can be judged and answered in some milliseconds. Very few producers have batches for
more partitions at one broker."""


@lru_cache(maxsize=16)
def few(limits: WireLimits) -> WireLimits:
    """Bounds of a message that is handled on an event loop."""
    return replace(limits, max_elements=min(limits.max_elements, FEW))


@lru_cache(maxsize=16)
def inline(limits: WireLimits) -> WireLimits:
    """Bounds of a message that is decoded by the offload thread, which other connections wait for."""
    return replace(limits, max_elements=min(limits.max_elements, limits.max_inline))
