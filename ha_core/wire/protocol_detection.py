"""What a connection speaks, told by its first bytes.

Kafka's requests begin with their size. Read as a size, the beginnings of all others are at least `LEAST`.
"""

from enum import Enum

LEAST = 0x0D0A_0D0A
HEAD_BYTES = 4
_HTTP = {b"GET ", b"PUT ", b"POST", b"HEAD", b"DELE", b"OPTI", b"CONN", b"PATC", b"TRAC", b"PRI ", b"HTTP"}
_PROXY = (b"PROX", b"\r\n\r\n")
"""Of version 1, which is text, and version 2."""


class Speech(Enum):
    """Also the metric label."""

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
"""What is said of a connection to a port without TLS that speaks none of Kafka's protocol."""

WITH_TLS = {
    Speech.KAFKA: "the client speaks Kafka's protocol without TLS: set its security.protocol to SSL or SASL_SSL",
    Speech.HTTP: "the client speaks HTTP on a Kafka port with TLS: check its address and port",
    Speech.PROXY: WITHOUT_TLS[Speech.PROXY],
    Speech.OTHER: "what came first is neither TLS nor anything known: check the client's address and port",
}
"""What is said of a connection to a port with TLS that begins without it."""
