"""Creates topics like those of another cluster; `deletion` reverses it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ha_core.kafka.brokers import Answers, Asking, Brokers, StillOurs
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
from ha_core.plan.facts.clusters import Trial
from ha_core.wire.codes import RETRIABLE, ApiKey, ErrorCode, name_of

_NOT_CARRIED = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
"""These name brokers of the origin by id."""
_UNKNOWN_KEY = "unknown topic config name"
"""Start of the error text for an unknown key in all broker versions; its error code also means bad values."""


class TopicCreation(Brokers):
    def create_topics(
        self,
        specs: Iterable[TopicSpec],
        timeout_s: float | None = None,
        still_ours: StillOurs = lambda: None,
    ) -> CreatedTopics:
        """Creates missing topics and waits until every broker knows a leader for every partition.

        A topic that exists with the same partition count counts as done. Settings are copied if the cluster knows the
        keys; replication is at most the number of brokers, min.insync.replicas at most the replication.

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

    def try_topics(self, specs: Iterable[TopicSpec], timeout_s: float | None = None) -> dict[str, Trial]:
        """Dry run of `create_topics`: the cluster's objections by topic; topics without objection are missing. Creates
        nothing."""
        creating = _Creating(self.asking(timeout_s), _nothing_is_made)
        wanted = [creating.fitted(spec) for spec in specs]
        return creating.objections(wanted) if wanted else {}


def _nothing_is_made() -> None:
    """In place of `still_ours` in a dry run."""


@dataclass
class _Creating:
    """One call of `create_topics`; `notes` list differences from the origin."""

    asking: Asking
    still_ours: StillOurs
    notes: list[str] = field(default_factory=list)

    def compare(self, wanted: Mapping[str, TopicSpec]) -> list[str]:
        """Names of the wanted topics that exist in the wanted shape."""
        found = sorted(describe(self.asking, wanted, offsets=False).items())
        for name, topic in found:
            if topic.partitions != wanted[name].partitions:
                raise StandsInTheWayError(
                    self.asking.cluster,
                    f"topic {name} has the partition count {topic.partitions}, and {wanted[name].partitions} is "
                    "needed. Give it as many, or delete it if it is not needed.",
                )
        return [name for name, _ in found]

    def fitted(self, spec: TopicSpec) -> TopicSpec:
        """The spec, reduced to what this cluster supports; every change is noted."""
        if not self.asking.nodes:
            self.asking.metadata()
        count = len(self.asking.nodes)
        replication = max(1, min(spec.replication, count))
        if replication < spec.replication:
            self._note(spec, f"replication {replication} in place of {spec.replication}: number of brokers: {count}")
        config = {key: value for key, value in spec.config.items() if key not in _NOT_CARRIED}
        for key in sorted(spec.config.keys() & _NOT_CARRIED):
            self._note(spec, f"{key} is not carried over: it names brokers")
        in_sync = config.get(MIN_IN_SYNC) or broker_setting(self.asking, MIN_IN_SYNC) or ""
        if in_sync.isdecimal() and int(in_sync) > replication:
            self._note(spec, f"{MIN_IN_SYNC} {replication} in place of {in_sync}: no more than the replicas")
            config[MIN_IN_SYNC] = str(replication)
        return replace(spec, replication=replication, config=config)

    def create(self, specs: list[TopicSpec]) -> None:
        """Creates topics; where the configuration is refused, without the keys that the cluster does not know."""
        refused = self._request(specs)
        again = []
        for spec in specs:
            if spec.name not in refused:
                continue
            unknown, wrong = _unknown_and_wrong(spec, self._by_key([spec])[spec.name])
            for key, (value, why) in wrong.items():
                what = f"create topic {spec.name} with {key}={value}"
                raise refusal(self.asking.cluster, what, ErrorCode.INVALID_CONFIG, why)
            for key, value in unknown.items():
                self._note(spec, f"{key}={value} is not carried over: this cluster does not know it")
            again.append(_without(spec, unknown))
        for name, why in self._request(again).items():
            raise refusal(self.asking.cluster, f"create topic {name}", ErrorCode.INVALID_CONFIG, why)

    def objections(self, specs: list[TopicSpec]) -> dict[str, Trial]:
        """Objections by topic; topics without one are missing."""
        refused = self._objections_of(specs)
        trials = {name: Trial(why=_error_text(*answer)) for name, answer in refused.items()}
        configs = [spec for spec in specs if refused.get(spec.name, _FINE)[0] == ErrorCode.INVALID_CONFIG]
        by_key, without = self._by_key(configs), list[TopicSpec]()
        for spec in configs:
            unknown, wrong = _unknown_and_wrong(spec, by_key[spec.name])
            trials[spec.name] = Trial(unknown, wrong)
            without.append(_without(spec, [*unknown, *wrong]))
        # The remaining settings may be refused together, or the topic for another reason.
        for name, answer in self._objections_of(without).items():
            trials[name] = replace(trials[name], why=_error_text(*answer))
        return trials

    def await_leaders(self, partitions: Mapping[str, int]) -> None:
        """Waits until every broker knows a leader for every partition."""

        def lacking(topic: dict[str, Any]) -> bool:
            led = sum(part["leader_id"] >= 0 and not part["error_code"] for part in topic["partitions"])
            return bool(topic["error_code"]) or led < partitions[topic["name"]]

        for node in [*self.asking.nodes]:
            self.asking.await_topics(node, partitions, lacking, f"broker {node} knows no leaders yet for {{}}")

    def _by_key(self, specs: list[TopicSpec]) -> dict[str, dict[str, str]]:
        """Topic → setting → the cluster's objection to a topic with this setting alone. Creates nothing."""
        errors: dict[str, dict[str, str]] = {spec.name: {} for spec in specs}
        for key in sorted({key for spec in specs for key in spec.config}):
            having = [replace(spec, config={key: spec.config[key]}) for spec in specs if key in spec.config]
            for name, answer in self._objections_of(having).items():
                errors[name][key] = _error_text(*answer)
        return errors

    def _objections_of(self, specs: list[TopicSpec]) -> dict[str, _Answer]:
        """The cluster's objections to creating these topics. Creates nothing; existing topics raise no objection."""
        answers = self._answers(specs, expected=None, validate_only=True)
        fine = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}
        return {name: answer for name, answer in answers.items() if answer[0] not in fine}

    def _request(self, specs: list[TopicSpec]) -> dict[str, str]:
        """Creates the topics; returns the errors of those whose configuration was refused.

        A topic that now exists was created by another run of this operation, or by a request whose answer was lost.
        """
        wanted = {spec.name: spec for spec in specs}
        answers = self._answers(specs, expected={ErrorCode.INVALID_CONFIG, ErrorCode.TOPIC_ALREADY_EXISTS})
        existing = [name for name, (code, _) in answers.items() if code == ErrorCode.TOPIC_ALREADY_EXISTS]
        self.compare({name: wanted[name] for name in existing})
        return {name: text for name, (code, text) in answers.items() if code == ErrorCode.INVALID_CONFIG}

    def _answers(
        self, specs: list[TopicSpec], expected: Collection[int] | None, validate_only: bool = False
    ) -> dict[str, _Answer]:
        """
        :param expected: error codes to return; None: all that are not retriable. Others are raised.
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
                if code not in RETRIABLE if expected is None else code in expected:
                    yield name, (code, text or "")
                else:
                    yield name, self.asking.again(f"create topic {name}", code, text) or (code, "")

        try:
            return self.asking.rounds("create the topics", [*wanted], self.asking.controller, ask)
        except (AuthenticationRefusedError, NotKafkaError) as error:
            if unanswered:  # the request may still take effect, whatever happened to the connection
                named = ", ".join(sorted(unanswered)[:5])
                raise NotReadyError(
                    self.asking.cluster, f"does not say whether {named} were created: {error}"
                ) from error
            raise

    def _note(self, spec: TopicSpec, text: str) -> None:
        self.notes.append(f"{spec.name}: {text}")


_Answer = tuple[int, str]
"""Error code and message."""
_FINE: _Answer = (0, "")


def _unknown_and_wrong(spec: TopicSpec, errors: Mapping[str, str]) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """Settings unknown to the cluster, with their values; and refused settings, with value and reason.

    :param errors: the cluster's error for each setting.
    """
    unknown = {key: spec.config[key] for key, why in errors.items() if _UNKNOWN_KEY in why.lower()}
    wrong = {key: (spec.config[key], why) for key, why in errors.items() if why and key not in unknown}
    return unknown, wrong


def _without(spec: TopicSpec, keys: Collection[str]) -> TopicSpec:
    return replace(spec, config={key: value for key, value in spec.config.items() if key not in keys})


def _error_text(code: int, text: str) -> str:
    return text or name_of(code)


def _as_asked(spec: TopicSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "num_partitions": spec.partitions,
        "replication_factor": spec.replication,
        "configs": [{"name": key, "value": value} for key, value in spec.config.items()],
    }
