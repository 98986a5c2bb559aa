"""Producer ids: what clients see, and what each term of a partition sees.

Every cluster counts producer ids from 0, so ids that clients see come from a range of their own. A stay of the writer
in a cluster (a term) needs an id of its own there: a producer that comes back would otherwise meet its old sequence
numbers and be refused with OUT_OF_ORDER_SEQUENCE_NUMBER, and a new epoch would have to start at sequence 0.

Transactional producers have their id from a coordinator, and it is worth something in that coordinator's cluster only;
in another one the same number is somebody else. So clients see it together with the virtual node that issued it: every
gateway, also one that was restarted, can tell of each request whether its producer belongs where it is going.

| what clients see | whose it is |
|---|---|
| below 2^44 | a coordinator's, given out past the gateways |
| 2^44 to 2^46 | the gateways': idempotent producers |
| node * 2^46 + id | `id` of the cluster of virtual node `node` (1 and up): transactional producers |
"""

from __future__ import annotations

FIRST_CLIENT_ID = 1 << 44
"""Below it are the ids that clusters hand out themselves."""
TERM_STRIDE = 1 << 46
MAX_TERM = (1 << 17) - 1


def is_gateway_id(producer_id: int) -> bool:
    """Whether the id comes from a gateway (and not from a cluster's transaction coordinator)."""
    return FIRST_CLIENT_ID <= producer_id < TERM_STRIDE


def upstream_id(client_id: int, term: int) -> int:
    """The id that the cluster of `term` sees for what the client calls `client_id`."""
    if not is_gateway_id(client_id):
        return client_id
    if not 0 <= term <= MAX_TERM:
        raise ValueError(f"term {term} is outside 0 to {MAX_TERM}")
    return client_id + term * TERM_STRIDE


def client_id(upstream: int) -> int:
    """The inverse of `upstream_id`; ids of clusters are returned as they are."""
    return upstream % TERM_STRIDE if upstream >= FIRST_CLIENT_ID else upstream


def own_id(upstream: int, term: int) -> int | None:
    """The client id of a gateways' producer that the cluster of `term` knows as `upstream`; None: it is none's."""
    client = client_id(upstream)
    return client if is_gateway_id(client) and upstream == upstream_id(client, term) else None


def issued_id(own: int, node: int) -> int:
    """What clients see of the id `own` that the coordinator behind the virtual node `node` has issued."""
    return own + node * TERM_STRIDE


def issuer(client_id: int) -> tuple[int, int]:
    """The inverse of `issued_id`: (virtual node, id in its cluster). Node 0, or one below, has issued nothing."""
    return divmod(client_id, TERM_STRIDE)
