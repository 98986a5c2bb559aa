"""Whether each member of a ZooKeeper ensemble serves.

A session shows one member, and moves on to another one when that goes. So each member is asked by itself: `srvr`, the
only four-letter command that ZooKeeper allows by default.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from kazoo.hosts import collect_hosts

from ha_core.store.security import StoreSecurity
from ha_core.tls.contexts import TlsFilesError
from ha_core.tls.renewing import context_of

WAIT_S = 2.0
"""For a member's whole answer. One that stands still accepts connections, and says nothing."""
_COMMAND = b"srvr"
_MAX_BYTES = 4096
_SERVES, _FORBIDDEN = "Mode: ", "not in the whitelist"


class MemberAway(NamedTuple):
    """:ivar address: `host:port`, as the configuration names it.
    :ivar why: in words, for the end of a sentence.
    """

    address: str
    why: str


def members_away(hosts: str, security: StoreSecurity, wait_s: float = WAIT_S) -> tuple[MemberAway, ...]:
    """Members that do not serve. A single one is not asked: a session shows how it is.

    :param hosts: `host:port[,host:port…]`. A name with several addresses counts as one member, and serves if the first
        that accepts connections does.
    """
    addresses = sorted(set(collect_hosts(hosts)[0]))
    if len(addresses) < 2:
        return ()
    with ThreadPoolExecutor(len(addresses), "zookeeper-members") as pool:
        found = pool.map(lambda address: _fault(address[0], address[1], security, wait_s), addresses)
        return tuple(MemberAway(_named(*address), why) for address, why in zip(addresses, found, strict=True) if why)


def _fault(host: str, port: int, security: StoreSecurity, wait_s: float) -> str:
    """Why a member does not serve; empty: it serves, or does not say."""
    until = time.monotonic() + wait_s
    try:
        with socket.create_connection((host, port), wait_s) as plain, _secured(plain, host, security) as sock:
            sock.sendall(_COMMAND)
            text = b"".join(_received(sock, lambda: until - time.monotonic())).decode("latin-1")
    except TimeoutError:
        return f"did not answer within {wait_s:g} s"
    except (OSError, TlsFilesError, ValueError) as error:
        return f"cannot be asked: {error}"
    if _SERVES in text or _FORBIDDEN in text:
        return ""
    return "runs, and does not serve: it has no connection to a majority" if text else "hung up without an answer"


def _secured(plain: socket.socket, host: str, security: StoreSecurity) -> socket.socket:
    if security.tls is None:
        return plain
    found: ssl.SSLSocket = context_of(security.tls, as_plain=False).wrap_socket(plain, server_hostname=host)
    return found


def _received(sock: socket.socket, left_s: Callable[[], float]) -> Iterable[bytes]:
    """The answer until the member hangs up, cut off at the length of a real one."""
    size = 0
    while size < _MAX_BYTES:
        if (rest_s := left_s()) <= 0:
            raise TimeoutError
        sock.settimeout(rest_s)
        data = sock.recv(_MAX_BYTES)
        if not data:
            return
        size += len(data)
        yield data


def _named(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def described(away: Sequence[MemberAway]) -> str:
    """`zk-2:2181 did not answer within 2 s`, all of them."""
    return "; ".join(f"{member.address} {member.why}" for member in away)
