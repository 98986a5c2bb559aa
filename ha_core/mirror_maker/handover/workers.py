"""Whether a real MirrorMaker 2 is at work: its workers are members of a group in the target."""

from ha_core.flows.connect_state import ConnectState
from ha_core.kafka.admin import Admin


def require_stopped(target: Admin, state: ConnectState) -> None:
    """:raises HandoverError: the group has members, whose hosts the error names."""
    raise NotImplementedError
