"""Topics as they are made in the target: a pre-flight has the target judge the same ones that a move's steps create.

What a topic is made with is `plan/facts/settings`; what the target makes of that, the target is asked (CREATE_TOPICS
with `validate_only`), before anything is changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.facts import TopicSpec
from ha_core.model import LinkRequest, MoveRequest
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.facts.settings import OF_A_COPY, STAMPS, settings_of, to_create
from ha_core.plan.preflight import PreflightCase


def as_made(spec: TopicSpec, defaults: Mapping[str, str], brokers: int, request: MoveRequest) -> TopicSpec:
    """What the target is asked to create.

    :param spec: the topic, as the origin has it.
    :param defaults: what the target's brokers go by where a topic is silent; empty: nobody knows.
    """
    replication = max(1, min(spec.replication, brokers))
    there = to_create(settings_of(spec.config, spec.defaults), defaults, replication, request.settings_left_alone)
    config = {key: value for key, value in there.changes.items() if value is not None}
    if isinstance(request, LinkRequest):
        # From its first moment on: whoever does not see the change of a setting yet would stamp records anew.
        config[STAMPS] = OF_A_COPY[STAMPS]
    return replace(spec, config=config)


def with_trials(environment: Environment, case: PreflightCase, timeout_s: float) -> PreflightCase:
    """The case with what its target says to the topics that are to be created there."""
    request, target = case.request, case.facts.clusters.get(case.request.target)
    if target is None or not target.reachable:
        return case
    specs = [
        as_made(spec, target.topic_defaults, len(target.brokers), request) for spec in _missing(case, case.moves.topics)
    ]
    try:
        trials = admin_of(environment, request.target).try_topics(specs, timeout_s) if specs else {}
    except (KafkaAdminError, RefusedError) as error:
        environment.say(f"{request.target} does not say whether it would create these topics: {error}")
        return case
    return replace(case, trials=trials)


def _missing(case: PreflightCase, topics: Collection[str]) -> list[TopicSpec]:
    """Topics as the origin has them, of those that the target says it has not."""
    found = []
    for name in topics:
        here, there = case.here(name), case.facts.topic(case.request.target, name)
        if here is not None and there is not None and not there.exists:
            counts = max(here.partitions, 1), max(here.replication, 1)
            found.append(TopicSpec(name, *counts, here.config, defaults=here.defaults))
    return found
