"""Inputs that no regular client sends: malformed, hostile, or out of order; and the outcome of each.

Beginnings of a connection come before a login (`BEFORE`), all others after one (`INSIDE`), at the bootstrap listener or
at a broker's virtual node.
"""

import struct
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

from ha_core.wire import ApiKey, encode, encode_request
from tests.gateway.session.batch import batch

K = ApiKey
USER, PASSWORD = "hostile", "h-secret"


class Outcome(Enum):
    CLOSED = "the connection is ended"
    ANSWERED = "every request is answered, and the connection is good for another one"
    EITHER = "it is answered or ended: both are right"


class Input(NamedTuple):
    """:ivar pieces: are sent one by one; a number is a pause in seconds, None the end of what the client sends.
    :ivar answers: how many come, where it is answered.
    """

    name: str
    pieces: tuple[bytes | float | None, ...]
    outcome: Outcome
    answers: int = 1
    at_broker: bool = False


def framed(body: bytes, size: int | None = None) -> bytes:
    return struct.pack(">i", len(body) if size is None else size) + body


def header(key: int, version: int, client_id: bytes | None = b"x", correlation: int = 7) -> bytes:
    said = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return struct.pack(">hhi", key, version, correlation) + said


def raw(key: int, version: int, body: bytes, **more: Any) -> bytes:
    return framed(header(key, version, **more) + body)


def request(api: int, version: int, /, **body: Any) -> bytes:
    return encode_request(api, version, 7, "x", encode(api, version, "request", body))


def shaken(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return request(K.SASL_HANDSHAKE, version, mechanism=mechanism)


def token(data: bytes) -> bytes:
    return request(K.SASL_AUTHENTICATE, 1, auth_bytes=data)


LOGIN = (shaken(), token(f"\0{USER}\0{PASSWORD}".encode()))
VERSIONS = request(K.API_VERSIONS, 0)
METADATA = request(K.METADATA, 4, topics=[{"name": "orders"}], allow_auto_topic_creation=False)
HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(120)


def _named(name: bytes) -> bytes:
    """METADATA of a topic with any bytes as its name."""
    return raw(K.METADATA, 4, struct.pack(">ih", 1, len(name)) + name + b"\0")


def _produce(records: bytes, acks: int = 1, index: int = 0, topic: str = "orders") -> bytes:
    data = [{"name": topic, "partition_data": [{"index": index, "records": records}]}]
    return request(K.PRODUCE, 7, acks=acks, timeout_ms=1000, topic_data=data)


def _fetch(**more: Any) -> bytes:
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100, **more.pop("partition", {})}
    body: dict[str, Any] = {"replica_id": -1, "max_wait_ms": 10, "min_bytes": 1, "max_bytes": 1000, "session_id": 0}
    body |= {"session_epoch": -1, "topics": [{"topic": "orders", "partitions": [asked]}], **more}
    return request(K.FETCH, 11, **body)


def _join(group: str, metadata: bytes = b"", protocol_type: str = "consumer") -> bytes:
    protocols = [{"name": "range", "metadata": metadata}]
    return request(
        *(K.JOIN_GROUP, 5),
        group_id=group, session_timeout_ms=10_000, rebalance_timeout_ms=1000, member_id="", group_instance_id=None,
        protocol_type=protocol_type, protocols=protocols,
    )  # fmt: skip


def _create(name: str, partitions: int = 1, factor: int = 1) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": factor, "assignments": [], "configs": []}


def before() -> Iterator[Input]:
    """Before a login."""
    closed = Outcome.CLOSED
    yield Input("a frame of no bytes", (framed(b""),), closed)
    yield Input("a negative size", (framed(b"", -1),), closed)
    yield Input("the smallest size there is", (framed(b"", -(2**31)),), closed)
    yield Input("the greatest size there is", (framed(b"x" * 100, 2**31 - 1),), closed)
    yield Input("more than a login needs", (framed(header(K.SASL_HANDSHAKE, 1), 200_000),), closed)
    yield Input("HTTP", (b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",), closed)
    yield Input("HTTP/2", (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",), closed)
    yield Input("TLS to a port without", (HELLO,), closed)
    yield Input("a PROXY header, first version", (b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + VERSIONS,), closed)
    yield Input("a PROXY header, second version", (b"\r\n\r\n\0\r\nQUIT\n!\x11\0\x0c" + bytes(12) + VERSIONS,), closed)
    yield Input("a banner of SSH", (b"SSH-2.0-OpenSSH_9.6\r\n",), closed)
    yield Input("nothing but zeros", (bytes(64),), closed)
    yield Input("nothing but ones", (b"\xff" * 64,), closed)
    yield Input("a frame that ends inside its header", (framed(b"\0\3\0\4" + bytes(4) + b"\x7f\xff"),), closed)
    yield Input("a client id of a negative length", (framed(struct.pack(">hhih", 18, 0, 7, -2) + b"ab"),), closed)
    yield Input("metadata without a login", (METADATA,), closed)
    yield Input("a produce without a login", (_produce(batch()),), closed)
    yield Input("an unknown API without a login", (raw(9999, 0, b""),), closed)
    yield Input("a token without a handshake", (token(b"\0a\0b"),), closed)
    yield Input("a handshake for an unknown mechanism", (shaken("ROT13"),), Outcome.ANSWERED)
    yield Input("a mechanism of control characters", (shaken("\x1b[2J\r\n" * 100),), Outcome.ANSWERED)
    yield Input("a mechanism that is no UTF-8", (raw(K.SASL_HANDSHAKE, 1, b"\0\2\xff\xfe"),), closed)
    yield Input("two handshakes", (shaken(), shaken()), closed)
    yield Input("an empty token", (shaken(), token(b"")), closed)
    yield Input("a token without a separator", (shaken(), token(b"hostile")), closed)
    yield Input("a token with too many separators", (shaken(), token(b"\0a\0b\0c\0d")), closed)
    yield Input("a token in another's name", (shaken(), token(b"root\0hostile\0h-secret")), closed)
    yield Input("a token that is no UTF-8", (shaken(), token(b"\0\xff\xfe\0\xfd")), closed)
    yield Input("a user whom nobody knows", (shaken(), token(b"\0nobody\0x")), closed)
    yield Input("a wrong password", (shaken(), token(b"\0hostile\0x")), closed)
    yield Input("a password of 60 kB", (shaken(), token(b"\0hostile\0" + b"x" * 60_000)), closed)
    yield Input("a bare token that is too long", (shaken(version=0), framed(b"x", 70_000)), closed)
    yield Input("a bare token of a negative size", (shaken(version=0), framed(b"", -5)), closed)
    yield Input("a request where a bare token was to come", (shaken(version=0), METADATA), closed)
    scram = shaken("SCRAM-SHA-256")
    for name, first in (
        ("without a nonce", b"n,,n=hostile"),
        ("with a channel binding", b"p=tls-unique,,n=hostile,r=abc"),
        ("with an extension that has to be known", b"n,,m=x,n=hostile,r=abc"),
        ("with a name that is badly escaped", b"n,,n=a=ZZ,r=abc"),
        ("with nothing at all", b","),
        ("of 60 kB", b"n,,n=" + b"x" * 60_000 + b",r=abc"),
    ):
        yield Input(f"SCRAM {name}", (scram, token(first)), closed)
    yield Input(
        "SCRAM with a final message for another nonce",
        (scram, token(b"n,,n=hostile,r=abc"), token(b"c=biws,r=zzz,p=AAAA")),
        closed,
    )
    yield Input("versions of a version that nobody knows", (raw(K.API_VERSIONS, 99, b"\1\1\0"),), Outcome.ANSWERED)
    yield Input("versions with half a body", (raw(K.API_VERSIONS, 3, b"\0\x50ab"),), closed)
    software = {"client_software_name": "\x1b]0;x\x07" * 50, "client_software_version": "'; DROP TABLE users;--"}
    yield Input("software of control characters and SQL", (request(K.API_VERSIONS, 3, **software),), Outcome.ANSWERED)
    yield Input("a hundred requests for versions in one piece", (VERSIONS * 100,), Outcome.ANSWERED, 100)
    yield Input("half a header, and nothing more", (b"\0\0\0\x20\0\x03",), closed)
    yield Input("not a byte", (), closed)
    yield Input("not a byte, and the end", (None,), closed)
    yield Input("a login a byte at a time that never ends", tuple(bytes([b]) for b in shaken()[:-1]), closed)


def inside() -> Iterator[Input]:
    """Behind a login."""
    closed, answered = Outcome.CLOSED, Outcome.ANSWERED
    yield Input("an unknown API", (raw(9999, 0, b""),), closed)
    yield Input("a negative API", (raw(-1, 0, b""),), closed)
    yield Input("an API of brokers among themselves", (raw(K.LEADER_AND_ISR, 1, bytes(40)),), closed)
    yield Input("a version that is too new", (raw(K.METADATA, 99, b"\0"),), closed)
    yield Input("a negative version", (raw(K.METADATA, -1, b"\0"),), closed)
    yield Input("metadata without a body", (raw(K.METADATA, 4, b""),), closed)
    yield Input("two thousand million topics", (raw(K.METADATA, 4, struct.pack(">i", 2**31 - 1) + b"\0"),), closed)
    yield Input("minus two topics", (raw(K.METADATA, 4, struct.pack(">i", -2) + b"\0"),), closed)
    yield Input("a varint without an end", (raw(K.DESCRIBE_GROUPS, 5, b"\0" + b"\xff" * 20),), closed)
    yield Input("a compact list longer than its frame", (raw(K.DESCRIBE_GROUPS, 5, b"\0\xff\xff\xff\x7f"),), closed)
    yield Input("a name longer than its frame", (raw(K.METADATA, 4, struct.pack(">ih", 1, 30_000) + b"abc"),), closed)
    yield Input("a name that is no UTF-8", (_named(b"\xff\xfe\xfd"),), closed)
    yield Input("a topic named by control characters", (_named(b"\x1b[2J\x00\r\n"),), answered)
    yield Input("a topic named as a path", (_named(b"../../etc/passwd"),), answered)
    yield Input("a topic with an empty name", (_named(b""),), answered)
    yield Input("a topic with a name of 30 kB", (_named(b"x" * 30_000),), answered)
    yield Input(
        "half a million topics", (raw(K.METADATA, 4, struct.pack(">i", 500_000) + b"\0\1a" * 500_000 + b"\0"),), closed
    )
    yield Input("ten thousand tags", (raw(K.DESCRIBE_GROUPS, 5, b"\0\1\0\x90\x4e" + b"\1\1a" * 9),), closed)
    yield Input("a tag longer than its frame", (raw(K.DESCRIBE_GROUPS, 5, b"\0\1\0\1\1\xff\xff\x03a"),), closed)
    yield Input(
        "bytes after the end of a body",
        (METADATA[:3] + bytes([METADATA[3] + 5]) + METADATA[4:] + b"extra",),
        Outcome.ANSWERED,
    )
    yield Input(
        "a client id of 32 kB", (raw(K.METADATA, 4, struct.pack(">i", 0) + b"\0", client_id=b"c" * 32_000),), answered
    )
    yield Input(
        "a client id that is no UTF-8",
        (raw(K.METADATA, 4, struct.pack(">i", 0) + b"\0", client_id=b"\xff\xfe"),),
        Outcome.ANSWERED,
    )
    yield Input("no client id", (raw(K.METADATA, 4, struct.pack(">i", 0) + b"\0", client_id=None),), answered)
    yield Input(
        "a client id that claims another user",
        (raw(K.METADATA, 4, struct.pack(">i", 0) + b"\0", client_id=b"HA#root#orders"),),
        answered,
    )
    yield Input("ten requests with one correlation id", (METADATA * 10,), answered, 10)
    yield Input("a request a byte at a time", tuple(bytes([b]) for b in METADATA), answered)
    yield Input("a request, and then half of one", (METADATA + METADATA[:9],), closed)
    yield Input(
        "a request of 10 MB that does not come", (framed(header(K.CREATE_TOPICS, 4) + bytes(1000), 10 << 20),), closed
    )
    yield Input("a request above the limit", (framed(header(K.METADATA, 4), 200 << 20),), closed)
    yield Input("a token without a handshake", (token(b"\0hostile\0h-secret"),), closed)
    yield Input("a login as somebody else", (shaken(), token(b"\0healthy\0b-secret")), closed)
    yield Input("a handshake in the middle of things, and no token", (shaken(), METADATA), answered, 2)
    yield Input("requests, and the end before their answers", (METADATA * 50, None), closed)
    yield Input(
        "a coordinator of a type that is none", (request(K.FIND_COORDINATOR, 2, key="g", key_type=7),), answered
    )
    yield Input("a coordinator of nothing", (request(K.FIND_COORDINATOR, 2, key="", key_type=0),), answered)
    yield Input(
        "a coordinator of control characters", (request(K.FIND_COORDINATOR, 2, key="\r\n\x00", key_type=1),), answered
    )
    yield Input("topics that nobody can make", (request(
        *(K.CREATE_TOPICS, 4),
        topics=[_create("x" * 300), _create("a b"), _create("neg", -5), _create("much", 1, 3000), _create("..")],
        timeout_ms=1000, validate_only=True,
    ),), answered)  # fmt: skip
    yield Input("a topic that is made twice at once", (request(
        *(K.CREATE_TOPICS, 4), topics=[_create("twice"), _create("twice")], timeout_ms=1000, validate_only=True
    ),), answered)  # fmt: skip
    yield Input(
        "topics that are not there are deleted",
        (request(K.DELETE_TOPICS, 1, topic_names=["none", "../x"], timeout_ms=1000),),
        answered,
    )
    yield Input("a join at a node that coordinates nothing", (_join("g"),), answered)
    yield Input("a produce at a node that leads nothing", (_produce(batch()),), answered)
    yield Input("a fetch at a node that leads nothing", (_fetch(),), answered)

    def at_broker(name: str, *pieces: bytes | float | None, outcome: Outcome = answered) -> Input:
        return Input(f"{name} (at a broker)", pieces, outcome, at_broker=True)

    yield at_broker("a produce with half a body", raw(K.PRODUCE, 7, b"\xff\xff\0\1\0\0"), outcome=closed)
    yield at_broker("a produce with no batch in it", _produce(b""))
    yield at_broker("a batch of random bytes", _produce(bytes(range(256))), outcome=Outcome.EITHER)
    yield at_broker("a batch with a wrong checksum", _produce(batch()[:20] + bytes([batch()[20] ^ 1]) + batch()[21:]))
    yield at_broker("a batch that says it is longer", _produce(batch()[:8] + struct.pack(">i", 10**6) + batch()[12:]))
    yield at_broker("a batch of a negative length", _produce(batch()[:8] + struct.pack(">i", -1) + batch()[12:]))
    yield at_broker("a partition with a negative number", _produce(batch(), index=-1))
    yield at_broker("a partition that is not there", _produce(batch(), index=10**6))
    yield at_broker("seven acknowledgements", _produce(batch(), acks=7))
    yield at_broker("a topic with an empty name is written", _produce(batch(), topic=""))
    yield at_broker(
        "minus three topics are written", raw(K.PRODUCE, 7, struct.pack(">hhii", -1, 1, 1000, -3)), outcome=closed
    )
    many = (
        struct.pack(">hhii", -1, 1, 1000, 1)
        + b"\0\1a"
        + struct.pack(">i", 100_000)
        + struct.pack(">ii", 0, -1) * 100_000
    )
    yield at_broker("a hundred thousand partitions are written", raw(K.PRODUCE, 3, many), outcome=closed)
    yield at_broker("half a produce, and nothing more", _produce(batch() * 100)[:600], outcome=closed)
    yield at_broker("half a produce, and the end", _produce(batch() * 100)[:600], None, outcome=closed)
    yield at_broker("a fetch in a broker's name", _fetch(replica_id=1))
    yield at_broker("a fetch from a negative offset", _fetch(partition={"fetch_offset": -5}))
    yield at_broker("a fetch from the far end", _fetch(partition={"fetch_offset": 2**63 - 1}))
    yield at_broker("a fetch of minus one byte", _fetch(max_bytes=-1, partition={"partition_max_bytes": -1}))
    yield at_broker("a fetch in a session that is none", _fetch(session_id=12345, session_epoch=7))
    yield at_broker("a fetch with half a body", raw(K.FETCH, 11, bytes(10)), outcome=closed)
    yield at_broker("a member of a group without a name", _join(""))
    yield at_broker(
        "a member with a subscription of random bytes", _join("hostile-g", bytes(range(256))), outcome=Outcome.EITHER
    )
    beat = {"group_id": "g", "generation_id": -7, "member_id": "\x00\r\n", "group_instance_id": None}
    yield at_broker("a heartbeat of nobody", request(K.HEARTBEAT, 3, **beat))
    yield at_broker(
        "a producer id with a negative timeout",
        request(K.INIT_PRODUCER_ID, 1, transactional_id="t", transaction_timeout_ms=-1),
    )
    yield at_broker(
        "a producer id for an empty id",
        request(K.INIT_PRODUCER_ID, 1, transactional_id="", transaction_timeout_ms=1000),
    )
    end = {"transactional_id": "none", "producer_id": 10**15, "producer_epoch": -3, "committed": True}
    yield at_broker("the end of a transaction that never began", request(K.END_TXN, 1, **end))
