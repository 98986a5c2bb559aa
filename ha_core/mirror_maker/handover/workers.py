"""Whether a real MirrorMaker 2 is at work: its workers are members of a group in the target.

A member is taken for one that copies. Its assignment does not tell: KIP-415 lists only what is new in it, and a
connector that begins has no tasks for some seconds, as one without topics never has.
"""

from ha_core.flows.connect_state import ConnectState
from ha_core.kafka.admin import Admin
from ha_core.mirror_maker.handover.errors import HandoverError


def require_stopped(target: Admin, state: ConnectState) -> None:
    """A member that was killed leaves when its session ends (`session.timeout.ms`, 10 s by default). By then brokers
    have appended everything that it had sent.

    :raises HandoverError: the group has members, whose hosts the error names.
    """
    group = target.describe_groups([state.group])[state.group]
    if group.members:
        hosts = ", ".join(sorted({f"{member.host.lstrip('/')} ({member.client_id})" for member in group.members}))
        raise HandoverError(
            f"MirrorMaker 2 is at work: its group {state.group} in {target.cluster.name} has members on {hosts}. Two "
            "copiers would copy each record twice. Stop it first; a killed one leaves the group after its "
            "session.timeout.ms, by default 10 s. If it copies between other clusters only, give it "
            f"{state.source_alias}->TARGET.emit.heartbeats.enabled = false"
        )
