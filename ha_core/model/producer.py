"""Producer ids: what clients see, and what each term of a partition sees.

Every cluster counts producer ids from 0, so ids that clients see come from a range of their own. A stay of the writer
in a cluster (a term) needs an id of its own there: a producer that comes back would otherwise meet its old sequence
numbers and be refused with OUT_OF_ORDER_SEQUENCE_NUMBER, and a new epoch would have to start at sequence 0.
"""

from __future__ import annotations

FIRST_CLIENT_ID = 1 << 44
"""Below it are the ids that clusters hand out themselves: transactional producers keep theirs in every term."""
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
