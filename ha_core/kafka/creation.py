"""Topics made like those of another cluster; `deletion` is the undo of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ha_core.kafka.brokers import Answers, Asking, Brokers
from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.errors import (
    AuthenticationRefusedError,
    NotKafkaError,
    NotReadyError,
    StandsInTheWayError,
    refusal,
)
from ha_core.kafka.facts import CreatedTopics, TopicSpec
from ha_core.kafka.topics import MIN_IN_SYNC, broker_setting, describe
from ha_core.wire.codes import RETRIABLE, ApiKey, ErrorCode

_NOT_CARRIED = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
"""They name brokers of the origin by id."""
_UNKNOWN_KEY = "unknown topic config name"
"""How brokers of every version begin to say that they do not know a key; its error code also means bad values."""


class Creation(Brokers):
    def create_topics(
        self,
        specs: Iterable[TopicSpec],
        timeout_s: float | None = None,
        still_ours: Callable[[], None] = lambda: None,
    ) -> CreatedTopics:
        """Creates what is missing and waits until every broker names a leader for every partition.

        A topic that exists with the same partition count counts as done. Configuration is carried over as far as the
        cluster knows the keys; replication is at most the number of brokers, min.insync.replicas at most the
        replication.

        :param still_ours: raises if they must not be created any more; asked next to each request.
        :raises StandsInTheWayError: a topic exists with another partition count; nothing was created then.
        """
        creating = _Creating(self.asking(timeout_s), still_ours)
        wanted = {spec.name: spec for spec in specs}
        existing = creating.compare(wanted)
        missing = [spec for name, spec in sorted(wanted.items()) if name not in existing]
        if missing:
            creating.create([creating.fitted(spec) for spec in missing])
            creating.await_leaders({spec.name: spec.partitions for spec in missing})
        return CreatedTopics(tuple(spec.name for spec in missing), tuple(existing), tuple(creating.notes))


@dataclass
class _Creating:
    """One call of `create_topics`; `notes` tell what is made otherwise than in the origin."""

    asking: Asking
    still_ours: Callable[[], None]
    notes: list[str] = field(default_factory=list)

    def compare(self, wanted: Mapping[str, TopicSpec]) -> list[str]:
        """Those that exist, in the shape that is wanted."""
        found = sorted(describe(self.asking, wanted, offsets=False).items())
        for name, topic in found:
            if topic.partitions != wanted[name].partitions:
                raise StandsInTheWayError(
                    self.asking.cluster,
                    f"topic {name} has {topic.partitions} partitions, {wanted[name].partitions} are needed. Give it as "
                    "many, or delete it if it is not needed.",
                )
        return [name for name, _ in found]

    def fitted(self, spec: TopicSpec) -> TopicSpec:
        """The spec with what this cluster cannot hold cut down; every cut is noted."""
        count = len(self.asking.nodes)
        replication = max(1, min(spec.replication, count))
        if replication < spec.replication:
            self._note(spec, f"replication {replication} in place of {spec.replication}: there are {count} brokers")
        config = {key: value for key, value in spec.config.items() if key not in _NOT_CARRIED}
        for key in sorted(spec.config.keys() & _NOT_CARRIED):
            self._note(spec, f"{key} is not carried over: it names brokers")
        in_sync = config.get(MIN_IN_SYNC) or broker_setting(self.asking, MIN_IN_SYNC) or ""
        if in_sync.isdecimal() and int(in_sync) > replication:
            self._note(spec, f"{MIN_IN_SYNC} {replication} in place of {in_sync}: no more than the replicas")
            config[MIN_IN_SYNC] = str(replication)
        return replace(spec, replication=replication, config=config)

    def create(self, specs: list[TopicSpec]) -> None:
        """Whose configuration is refused is made without the keys that the cluster does not know."""
        refused = self._request(specs)
        for name, why in self._request([self._known_keys(spec) for spec in specs if spec.name in refused]).items():
            raise refusal(self.asking.cluster, f"create topic {name}", ErrorCode.INVALID_CONFIG, why)

    def await_leaders(self, partitions: Mapping[str, int]) -> None:
        """Waits until every broker names a leader for every partition."""

        def lacking(topic: dict[str, Any]) -> bool:
            led = sum(part["leader_id"] >= 0 and not part["error_code"] for part in topic["partitions"])
            return bool(topic["error_code"]) or led < partitions[topic["name"]]

        for node in [*self.asking.nodes]:
            self.asking.await_topics(node, partitions, lacking, f"broker {node} knows no leaders yet for {{}}")

    def _known_keys(self, spec: TopicSpec) -> TopicSpec:
        """The spec without the keys that the cluster does not know; each key is tried alone, nothing is created."""
        config = {}
        for key, value in spec.config.items():
            why = self._request([replace(spec, config={key: value})], validate_only=True).get(spec.name, "")
            if _UNKNOWN_KEY in why.lower():
                self._note(spec, f"{key}={value} is not carried over: this cluster does not know it")
            elif why:
                what = f"create topic {spec.name} with {key}={value}"
                raise refusal(self.asking.cluster, what, ErrorCode.INVALID_CONFIG, why)
            else:
                config[key] = value
        return replace(spec, config=config)

    def _request(self, specs: list[TopicSpec], validate_only: bool = False) -> dict[str, str]:
        """Creates (or checks) the topics; what was said of those whose configuration was refused.

        One that exists by now was made by another run of this operation, or by a request whose answer was lost.
        """
        wanted = {spec.name: spec for spec in specs}
        unanswered: set[str] = set()

        def ask(node: int, names: list[str]) -> Answers[str, _Answer]:
            def talk(connection: BlockingConnection) -> dict[str, Any]:
                if not validate_only:
                    self.still_ours()
                    unanswered.update(names)
                message = {
                    "topics": [_as_asked(wanted[name]) for name in names],
                    "timeout_ms": self.asking.deadline.left_ms,
                    "validate_only": validate_only,
                }
                return connection.call(ApiKey.CREATE_TOPICS, message)

            topics = self.asking.converse(node, talk)["topics"]
            unanswered.difference_update(topic["name"] for topic in topics if topic["error_code"] not in RETRIABLE)
            for topic in topics:
                name, code, text = topic["name"], topic["error_code"], topic["error_message"]
                if code == ErrorCode.INVALID_CONFIG or (code == ErrorCode.TOPIC_ALREADY_EXISTS and not validate_only):
                    yield name, (code, text or "")
                else:
                    yield name, self.asking.again(f"create topic {name}", code, text) or (code, "")

        try:
            answers = self.asking.rounds("create the topics", [*wanted], self.asking.controller, ask)
        except (AuthenticationRefusedError, NotKafkaError) as error:
            if unanswered:  # it may happen yet, whatever became of the connection since
                named = ", ".join(sorted(unanswered)[:5])
                raise NotReadyError(
                    self.asking.cluster, f"does not say whether {named} were created: {error}"
                ) from error
            raise
        existing = [name for name, (code, _) in answers.items() if code == ErrorCode.TOPIC_ALREADY_EXISTS]
        self.compare({name: wanted[name] for name in existing})
        return {name: text for name, (code, text) in answers.items() if code == ErrorCode.INVALID_CONFIG}

    def _note(self, spec: TopicSpec, text: str) -> None:
        self.notes.append(f"{spec.name}: {text}")


_Answer = tuple[int, str]
"""Error code, and what was said."""


def _as_asked(spec: TopicSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "num_partitions": spec.partitions,
        "replication_factor": spec.replication,
        "configs": [{"name": key, "value": value} for key, value in spec.config.items()],
    }
