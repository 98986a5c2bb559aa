"""Producer ids: as clients see them, and as clusters see them in each writer epoch (`term`).

Every cluster counts producer ids from 0, so clients get ids from a separate range. Each writer epoch uses its own id in
its cluster: a producer that comes back would otherwise meet its old sequence numbers and be refused with
OUT_OF_ORDER_SEQUENCE_NUMBER, and a new producer epoch would have to start at sequence 0.

A transactional producer's id comes from a coordinator and is valid in that coordinator's cluster only; in another one
the number is another producer's. So clients see it together with the virtual node that issued it: every gateway, also
after a restart, can check whether the producer of a request belongs to the cluster that the request goes to.

| id that clients see | owner |
|---|---|
| below 2^44 | a coordinator, which a client reached past the gateways |
| 2^44 to 2^46 | the gateways: idempotent producers |
| node * 2^46 + id | `id` in the cluster of virtual node `node` (1 and up): transactional producers |
"""

FIRST_CLIENT_ID = 1 << 44
"""Ids below come from the clusters themselves."""
WRITER_EPOCH_STRIDE = 1 << 46
MAX_WRITER_EPOCH = (1 << 17) - 1


def is_gateway_id(producer_id: int) -> bool:
    """Whether a gateway issued the id, not a cluster's transaction coordinator."""
    return FIRST_CLIENT_ID <= producer_id < WRITER_EPOCH_STRIDE


def upstream_id(client_id: int, writer_epoch: int) -> int:
    """The id that the cluster of `writer_epoch` sees for the client's `client_id`."""
    if not is_gateway_id(client_id):
        return client_id
    if not 0 <= writer_epoch <= MAX_WRITER_EPOCH:
        raise ValueError(f"writer epoch {writer_epoch} is outside 0 to {MAX_WRITER_EPOCH}")
    return client_id + writer_epoch * WRITER_EPOCH_STRIDE


def client_id(upstream: int) -> int:
    """The inverse of `upstream_id`; ids of clusters stay as they are."""
    return upstream % WRITER_EPOCH_STRIDE if upstream >= FIRST_CLIENT_ID else upstream


def own_id(upstream: int, writer_epoch: int) -> int | None:
    """The client's id of the producer that the cluster of `writer_epoch` knows as `upstream`; None: no gateway issued
    it."""
    client = client_id(upstream)
    return client if is_gateway_id(client) and upstream == upstream_id(client, writer_epoch) else None


def issued_id(own: int, node: int) -> int:
    """The id that clients see for `own`, which the coordinator of virtual node `node` has issued."""
    return own + node * WRITER_EPOCH_STRIDE


def issuer(client_id: int) -> tuple[int, int]:
    """The inverse of `issued_id`: (virtual node, id in its cluster). Node 0 or below: no coordinator issued it."""
    return divmod(client_id, WRITER_EPOCH_STRIDE)
