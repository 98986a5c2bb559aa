"""Whether a real MirrorMaker 2 is at work: its workers are members of a group in the target."""

from ha_core.flows.connect_state import ConnectState
from ha_core.kafka.admin import Admin
from ha_core.mirror_maker.handover.errors import HandoverError


def require_stopped(target: Admin, state: ConnectState) -> None:
    """A member that was killed leaves when its session ends (`session.timeout.ms`, 10 s by default). By then brokers
    have appended everything that it had sent.

    :raises HandoverError: the group has members that copy, or that may: their hosts are named.
    """
    group = target.describe_groups([state.group])[state.group]
    copying = [one for one in group.members if group.state != "Stable" or state.copies(one.assignment)]
    if copying:
        hosts = ", ".join(sorted({f"{member.host.lstrip('/')} ({member.client_id})" for member in copying}))
        raise HandoverError(
            f"MirrorMaker 2 is at work: its group {state.group} in {target.cluster.name} has members that copy, on "
            f"{hosts}. Two copiers would copy each record twice. Stop it first; a killed one leaves the group after "
            "its session.timeout.ms, by default 10 s"
        )
