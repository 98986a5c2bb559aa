"""Documents for the tests, and changes that write them."""

import itertools

from ha_core.model import Document, GatewayRecord, HistoryEntry, Operation, UserBindings
from ha_core.store.commits import StateChange, key_of
from tests.kit.operations import a_switch

_numbers = itertools.count()


def binding(user: str = "ann", cluster: str = "east") -> UserBindings:
    return UserBindings(user=user, cluster=cluster)


def put(
    *documents: Document, at: int | None = None, change_id: str = "", fence: tuple[str, int] | None = None
) -> StateChange:
    """A change that writes the documents, all at version `at`."""
    return StateChange(
        change_id=change_id or f"change-{next(_numbers)}",
        puts=documents,
        expected={key_of(document): at for document in documents},
        operation=fence[0] if fence else None,
        epoch=fence[1] if fence else None,
    )


def operation(name: str = "switch-1", started: str = "2026-11-21T10:00:00Z") -> Operation:
    return a_switch(id=name, by="cli:joe@ops1", reason="drill", started=started)


def entry(step: str, epoch: int = 0) -> HistoryEntry:
    return HistoryEntry(at="2026-11-21T10:00:01Z", epoch=epoch, step=step, outcome="done")


def gateway(revision: int = 0, name: str = "gw-1") -> GatewayRecord:
    return GatewayRecord(id=name, host="127.0.0.1", port=19092, node_id=1, revision=revision)
