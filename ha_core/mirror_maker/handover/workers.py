"""Checks whether a real MirrorMaker 2 runs: its workers are members of a group in the target.

Every member counts as one that copies. Its assignment does not show whether it copies: with KIP-415 it lists only
changes, a connector that starts has no tasks for some seconds, and a connector without topics never has any.
"""

from ha_core.flows.connect_state import ConnectState
from ha_core.kafka.admin import Admin
from ha_core.mirror_maker.handover.errors import HandoverError


def require_stopped(target: Admin, state: ConnectState) -> None:
    """Require that the group has no members. A killed member leaves when its session ends (`session.timeout.ms`, 10 s
    by default); by then brokers have appended everything that it had sent.

    :raises HandoverError: the group has members; the text names their hosts.
    """
    group = target.describe_groups([state.group])[state.group]
    if group.members:
        hosts = ", ".join(sorted({f"{member.host.lstrip('/')} ({member.client_id})" for member in group.members}))
        raise HandoverError(
            f"MirrorMaker 2 is running: its group {state.group} in {target.cluster.name} has members on {hosts}. Two "
            "copiers would copy each record twice. Stop MirrorMaker 2 first; a killed process leaves the group after "
            "session.timeout.ms, 10 s by default. If it copies only between other clusters, set "
            f"{state.source_alias}->TARGET.emit.heartbeats.enabled = false in its file"
        )
