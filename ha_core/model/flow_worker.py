"""A worker of MirrorMaker 2 flows, with the states of its flows for operators."""

from typing import Any

from pydantic import Field

from ha_core.model.document import FEW_BYTES, Document

MAX_FLOWS = 1_000


class FlowWorker(Document):
    """`/flow_workers/{id}`, ephemeral. All live workers of a flow share the flow (`ha_core.flows.sharing`)."""

    FOLDER = "/flow_workers"
    KEY = "id"
    PLAIN_BYTES = FEW_BYTES

    id: str
    """Random, new for each process."""
    host: str
    pid: int
    since: str
    """UTC, ISO 8601."""
    file: str = ""
    """Name of the configuration."""
    flows: tuple[str, ...] = Field(default=(), max_length=MAX_FLOWS)
    """Flows that this worker shares: name, and the ids of both clusters."""
    states: dict[str, dict[str, Any]] = {}
    """Flow → its state in this worker, which has a bounded size (`ha_core.mirror_maker.states`)."""
