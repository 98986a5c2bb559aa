"""Group moves of flows whose process has died, apart from the moves themselves: each command and task imports this
kind, and clients may wait for it; what a move needs to read flows would take a quarter of the imports of a switch."""

from ha_core.model import SingleOperation
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.single import Single

REPEAT = "Run it again: it commits the same offsets."


class MoveGroup(Single):
    """Ends group moves whose process has died. Only that process knew the flow's clusters, so no other can continue."""

    names = ("move-group",)

    def advance(self, journal: Journal[SingleOperation]) -> None:
        if journal.operation.state == "running":
            self.take_back(journal, "interrupted")
        elif journal.operation.state == "cut":
            journal.finish("succeeded", "the group's offsets are committed in the target")
        else:
            journal.release()

    def take_back(self, journal: Journal[SingleOperation], why: str) -> bool:
        journal.finish("failed", f"{why}: some offsets may be committed in the target. {REPEAT}")
        return True
