"""The one door to a cluster's administration.

Topics are created with confluent-kafka's AdminClient, which finds the controller. Everything else is read and written
with raw requests, for what the AdminClient has not: the log end above the high watermark, leader epochs, producer
states, adopted members, deletion by topic id, several groups in one request, and refused logins that are told at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Self

from ha_core.kafka import (
    adoption,
    creation,
    deletion,
    group_offsets,
    groups,
    offsets,
    probe,
    producers,
    record_times,
    surplus,
    topics,
)
from ha_core.kafka.brokers import Brokers
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.facts import Adopted, CreatedTopics, GroupDescription, LogEnds, RecordTimes, TopicSpec
from ha_core.kafka.group_offsets import Committed
from ha_core.kafka.probe import Probe
from ha_core.kafka.security import NO_SECURITY, client_settings
from ha_core.kafka.topics import TopicDescription
from ha_core.model.cluster import Cluster
from ha_core.model.group import Member
from ha_core.plan.facts import Partition, ProducerFacts, Surplus
from ha_core.wire.sasl import SecurityProfile

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

DEFAULT_TIMEOUT_S = 10.0


class Admin:
    """One cluster. Connects at the first question, keeps its connections warm, safe for threads; close it.

    Every method takes at most `timeout_s` (of the call, else of the object) and raises `KafkaAdminError`s.
    """

    def __init__(
        self, cluster: Cluster, security: SecurityProfile = NO_SECURITY, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self.cluster = cluster
        self._security = security
        self._brokers = Brokers(cluster, security, timeout_s)
        self._client: AdminClient | None = None
        self._guard = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._brokers.close()
        self._client = None

    def probe(
        self, topics: Collection[str] = (), groups: Collection[str] = (), timeout_s: float | None = None
    ) -> Probe:
        """Reachability, brokers, versions and rights; what is wrong is in the answer, not raised."""
        return probe.probe(self._brokers, topics, groups, self._deadline(timeout_s))

    def topics(
        self, names: Collection[str] | None = None, offsets: bool = True, timeout_s: float | None = None
    ) -> dict[str, TopicDescription]:
        """The topics of `names` that exist (None: all). Partitions whose leader does not answer lack in `ends`."""
        return topics.describe(self._brokers, names, self._deadline(timeout_s), offsets, partial=True)

    def partition_counts(self, names: Collection[str], timeout_s: float | None = None) -> dict[str, int]:
        """How many partitions topics have at this moment; costs one question to each broker."""
        return topics.partition_counts(self._brokers, names, self._deadline(timeout_s))

    def create_topics(
        self,
        specs: Iterable[TopicSpec],
        timeout_s: float | None = None,
        still_ours: Callable[[], None] = lambda: None,
    ) -> CreatedTopics:
        """Creates topics like those of the origin; those that exist with the same partition count are left alone.

        :param still_ours: raises if they must not be created any more; asked next to each request.
        """
        return creation.create(self._brokers, self._admin_client, specs, still_ours, self._deadline(timeout_s))

    def delete_empty_topics(
        self, names: Collection[str], still_ours: Callable[[], None], timeout_s: float | None = None
    ) -> tuple[str, ...]:
        """Deletes topics that never had a record; returns those that were there.

        :param still_ours: raises if they must not be deleted any more; asked next to each request.
        """
        return deletion.delete_empty(self._brokers, names, still_ours, self._deadline(timeout_s))

    def delete_drained_topics(
        self, names: Collection[str], still_ours: Callable[[], None], timeout_s: float | None = None
    ) -> tuple[str, ...]:
        """Deletes topics that hold no record any more; returns those that were there. `still_ours` as above."""
        return deletion.delete_drained(self._brokers, names, still_ours, self._deadline(timeout_s))

    def ends(self, partitions: Collection[Partition], timeout_s: float | None = None) -> dict[Partition, LogEnds]:
        """Starts and ends as they are now; `offsets` says what makes an end one to cut at."""
        return offsets.ends(self._brokers, partitions, self._deadline(timeout_s))

    def record_times(
        self, ends: Mapping[Partition, LogEnds], timeout_s: float | None = None
    ) -> dict[Partition, RecordTimes]:
        """Timestamps of first and newest records; whoever does not tell them in time is left out, nothing is raised."""
        return record_times.record_times(self._brokers, ends, self._deadline(timeout_s))

    def producers(
        self, partitions: Collection[Partition], timeout_s: float | None = None
    ) -> dict[Partition, tuple[ProducerFacts, ...]]:
        """What the leaders remember of producers."""
        return producers.producers(self._brokers, partitions, self._deadline(timeout_s))

    def list_groups(self, timeout_s: float | None = None) -> dict[str, str]:
        """Every consumer group → its state; empty where brokers older than 2.6 do not say it."""
        return groups.names(self._brokers, self._deadline(timeout_s))

    def surplus(
        self, regions: Mapping[Partition, tuple[int, int]], timeout_s: float | None = None
    ) -> dict[Partition, Surplus]:
        """What the batch headers of each region `[start, end)` say of producers; reads all bytes, keeps none."""
        return surplus.surplus(self._brokers, regions, self._deadline(timeout_s))

    def min_in_sync(self, timeout_s: float | None = None) -> int:
        """The brokers' default of `min.insync.replicas`; 1 where the account may not read it."""
        deadline = self._deadline(timeout_s)
        if not self._brokers.nodes:
            self._brokers.metadata((), deadline)
        found = topics.broker_setting(self._brokers, min(self._brokers.nodes), "min.insync.replicas", deadline)
        return int(found) if found is not None and found.isdecimal() else 1

    def describe_groups(self, names: Collection[str], timeout_s: float | None = None) -> dict[str, GroupDescription]:
        """State and members; a group that does not exist is `Dead`."""
        return groups.describe(self._brokers, names, self._deadline(timeout_s))

    def group_generation(self, group: GroupDescription, timeout_s: float | None = None) -> int:
        """The generation of a stable group of this cluster."""
        return groups.generation(self._brokers, group, self._deadline(timeout_s))

    def group_offsets(
        self, names: Collection[str], stable: bool = True, timeout_s: float | None = None
    ) -> dict[str, dict[Partition, Committed]]:
        """group → partition → (offset, metadata), as committed."""
        return group_offsets.read(self._brokers, names, self._deadline(timeout_s), stable)

    def set_group_offsets(
        self,
        group: str,
        committed: Mapping[Partition, Committed],
        member: Member | None = None,
        timeout_s: float | None = None,
        still_ours: Callable[[], None] = lambda: None,
    ) -> None:
        """Commits and reads back; into a group with adopted members as one of them.

        :param still_ours: raises if they must not be committed any more; asked next to each request.
        """
        group_offsets.write(self._brokers, group, committed, member, still_ours, self._deadline(timeout_s))

    def delete_group_offsets(
        self,
        group: str,
        partitions: Collection[Partition],
        still_ours: Callable[[], None],
        timeout_s: float | None = None,
    ) -> tuple[Partition, ...]:
        """Forgets committed offsets; returns those that stay, because live members are subscribed to the topics."""
        return group_offsets.delete(self._brokers, group, partitions, still_ours, self._deadline(timeout_s))

    def adopt(self, origin: GroupDescription, timeout_s: float | None = None) -> Adopted:
        """Joins a group of another cluster here, on its members' behalf; takes at most 30 s unless told otherwise."""
        return adoption.adopt(self._brokers, origin, self._deadline(timeout_s or adoption.TIMEOUT_S))

    def heartbeat(self, adopted: Adopted, timeout_s: float | None = None) -> None:
        """Keeps adopted members alive."""
        adoption.heartbeat(self._brokers, adopted, self._deadline(timeout_s))

    def leave(self, adopted: Adopted, timeout_s: float | None = None) -> None:
        """Undoes `adopt`."""
        adoption.leave(self._brokers, adopted, self._deadline(timeout_s))

    def _deadline(self, timeout_s: float | None) -> Deadline:
        return self._brokers.deadline() if timeout_s is None else Deadline.after(timeout_s)

    def _admin_client(self) -> AdminClient:
        with self._guard:
            if self._client is None:
                from confluent_kafka.admin import AdminClient

                self._client = AdminClient(
                    {
                        "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in self._brokers.bootstrap),
                        "socket.timeout.ms": max(1000, int(self._brokers.timeout_s * 1000)),
                        "log_level": 0,  # what goes wrong is raised, not printed by another thread
                        **client_settings(self._security),
                    }
                )
            return self._client
