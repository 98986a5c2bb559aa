"""Client ids that lead clients of this machine to a chosen gateway: gateways are chosen by client id."""

from collections.abc import Collection
from itertools import count

from gateway.process.peers import weight
from ha_core.model import identify

HOST = "127.0.0.1"


def client_id_at(gateway: str, gateways: Collection[str], name: str, user: str | None = None) -> str:
    """The name, or the first one with a number appended, whose client is led to the given gateway.

    :param user: the login; None: without one.
    """
    if gateway not in gateways:
        raise ValueError(f"no gateway is called {gateway!r}; there is {', '.join(sorted(gateways))}")
    for number in count():
        client_id = f"{name}-{number}" if number else name
        identity = identify(user, client_id)
        if max(gateways, key=lambda one: weight(one, identity, HOST)) == gateway:
            return client_id
    raise AssertionError
