"""A thousand topics of fifty partitions, in batches whose revisions ZooKeeper takes."""

from __future__ import annotations

from ha_core.model import MoveRequest, MoveSet, Operation, Scope, View
from ha_core.moves.migration.planning import _BYTES_PER_PARTITION, _chunks
from ha_core.plan.crossing import open_change, propose_change, settle_change
from ha_core.plan.facts import PartitionEnds
from ha_core.plan.move import Documents
from ha_core.store.documents import to_bytes
from ha_core.store.tree import MAX_REQUEST_BYTES
from tests.plan.test_crossing import after

TOPICS, PARTITIONS = 1_000, 50
LONG = "a-topic-with-quite-a-long-name-as-teams-like-to-have-them"


def size(documents: Documents) -> int:
    return sum(len(to_bytes(put)) for put in documents.puts)


def test_every_revision_of_every_batch_fits_into_one_write() -> None:
    names = [f"{LONG}-{number}" for number in range(TOPICS)]
    sizes = dict.fromkeys(names, _BYTES_PER_PARTITION * PARTITIONS)

    batches = list(_chunks(names, 200, sizes))

    assert [name for batch in batches for name in batch] == names
    assert all(len(batch) <= 200 for batch in batches)
    for batch in batches[:2]:
        scope = Scope(topics=tuple(batch))
        operation = Operation(
            id="m-1",
            kind="migrate",
            state="running",
            by="t",
            reason="t",
            started="now",
            request=MoveRequest(scope=scope, origin="east-data-centre", target="west-data-centre", reason="t"),
            moves=MoveSet(topics=tuple(batch), reasons={f"topic:{name}": "named in the scope" for name in batch}),
        )
        keys = {(name, p): PartitionEnds(10**12, 10**12) for name in batch for p in range(PARTITIONS)}
        written = propose_change(operation, View(), batch, keys, dict.fromkeys(keys, 2 * 10**12))
        assert size(written) < MAX_REQUEST_BYTES
        operation, view = after(written)
        operation, view = after(open_change(operation, view, batch, keys), view)
        reached = {key: PartitionEnds(10**12, 2 * 10**12) for key in keys}
        done, _ = after(settle_change(operation, view, batch, reached, {}), view)
        assert done.state == "cut"
