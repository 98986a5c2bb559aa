"""Client ids that lead clients of this machine to a chosen gateway: gateways place each client by its name."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count

from gateway.process.peers import weight
from ha_core.model import identify

HOST = "127.0.0.1"


def client_id_at(gateway: str, gateways: Collection[str], name: str, user: str | None = None) -> str:
    """The name, or the first one made of it by a number, whose client is led to this one of the gateways.

    :param user: who logs in; None: nobody does.
    """
    if gateway not in gateways:
        raise ValueError(f"no gateway is called {gateway!r}; there is {', '.join(sorted(gateways))}")
    for number in count():
        client_id = f"{name}-{number}" if number else name
        identity = identify(user, client_id)
        if max(gateways, key=lambda one: weight(one, identity, HOST)) == gateway:
            return client_id
    raise AssertionError
