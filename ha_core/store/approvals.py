"""Approvals that Airflow runs wait for."""

from __future__ import annotations

from functools import partial

from ha_core.model import WaitingApproval
from ha_core.store import documents, paths
from ha_core.store.documents import readable
from ha_core.store.tree import OnTree, Op, Remove, once, placed, remove


class Approvals(OnTree):
    def await_approval(self, approval: WaitingApproval) -> None:
        """Record that a run waits for its approval; remove the records of all runs whose time to answer is over."""
        path = paths.path_of(WaitingApproval, approval.run)

        def write() -> None:
            ops: list[Op] = [placed(path, documents.to_bytes(approval), self._tree.get(path))]
            for waiting in self.waiting_approvals():
                old = paths.path_of(WaitingApproval, waiting.run)
                node = self._tree.get(old) if waiting.answer_by < approval.since and old != path else None
                if node is not None:
                    ops.append(Remove(old, node.version))
            self._tree.write(ops)

        once(self._tree, f"the approval of {approval.run}", write)

    def end_approval(self, run: str) -> None:
        """Remove the record of a run, if there is one."""
        once(self._tree, f"the approval of {run}", partial(remove, self._tree, paths.path_of(WaitingApproval, run)))

    def waiting_approvals(self) -> list[WaitingApproval]:
        """All recorded approvals, the oldest first; documents that this version cannot read are left out."""
        return sorted(readable(self._tree, WaitingApproval), key=lambda one: (one.since, one.run))
