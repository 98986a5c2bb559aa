"""Detects the protocol of a connection by its first bytes.

Kafka's requests begin with their size. The first bytes of all other protocols, read as a size, are at least `LEAST`.
"""

from enum import Enum

LEAST = 0x0D0A_0D0A
HEAD_BYTES = 4
_HTTP = {b"GET ", b"PUT ", b"POST", b"HEAD", b"DELE", b"OPTI", b"CONN", b"PATC", b"TRAC", b"PRI ", b"HTTP"}
_PROXY = (b"PROX", b"\r\n\r\n")
"""Version 1, which is text, and version 2."""


class Speech(Enum):
    """Protocol; also the metric label."""

    KAFKA = "kafka"
    TLS = "tls"
    HTTP = "http"
    PROXY = "proxy"
    OTHER = "other"


def speech(head: bytes) -> Speech:
    """:param head: the first bytes, at least `HEAD_BYTES`."""
    if head[0] in (0x15, 0x16) and head[1] == 0x03:
        return Speech.TLS
    if head[:4] in _HTTP:
        return Speech.HTTP
    if head[:4] in _PROXY:
        return Speech.PROXY
    return Speech.KAFKA if int.from_bytes(head[:4], "big") < LEAST else Speech.OTHER


WITHOUT_TLS = {
    Speech.TLS: "the peer speaks TLS on a port without TLS: set its security.protocol, or use the TLS port",
    Speech.HTTP: "the peer speaks HTTP on a Kafka port: check its address and port",
    Speech.PROXY: "a PROXY header came first, and none is expected here: turn it off at the load balancer",
}
"""Reasons for refusing another protocol on a port without TLS."""

WITH_TLS = {
    Speech.KAFKA: "the client speaks Kafka's protocol without TLS: set its security.protocol to SSL or SASL_SSL",
    Speech.HTTP: "the client speaks HTTP on a Kafka port with TLS: check its address and port",
    Speech.PROXY: WITHOUT_TLS[Speech.PROXY],
    Speech.OTHER: "what came first is neither TLS nor anything known: check the client's address and port",
}
"""Reasons for refusing a connection without TLS on a port with TLS."""
