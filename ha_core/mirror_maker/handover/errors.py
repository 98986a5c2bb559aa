"""Errors of handovers."""

from collections.abc import Mapping

from ha_core.flows.errors import FlowError
from ha_core.plan.facts.clusters import Partition

_SHOWN = 5


class HandoverError(FlowError):
    """A copy cannot be handed over. The text names the copy, the reason and the way out."""


def refused(reasons: Mapping[Partition, str]) -> HandoverError:
    """Make one error for all refused partitions.

    :param reasons: partition of the remote topic → reason and way out.
    """
    told = [f"{topic}-{number}: {reason}" for (topic, number), reason in sorted(reasons.items())[:_SHOWN]]
    more = len(reasons) - len(told)
    return HandoverError("; ".join(told) + (f"; and {more} more partitions" if more else ""))
