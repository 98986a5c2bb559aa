"""Topics as they are created in the target: a pre-flight has the target judge the specs that a move's steps create.

`plan/facts/settings` decides the settings of a topic; the target judges them (CREATE_TOPICS with `validate_only`)
before anything is changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.facts import TopicSpec
from ha_core.model import MoveRequest
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.facts.settings import OF_A_COPY, STAMPS, settings_of, to_create
from ha_core.plan.preflight import PreflightCase


def as_made(spec: TopicSpec, defaults: Mapping[str, str], brokers: int, request: MoveRequest) -> TopicSpec:
    """The spec that the target is asked to create.

    :param spec: the topic, as the origin has it.
    :param defaults: settings of the target's brokers for topics without their own; empty: unknown.
    """
    replication = max(1, min(spec.replication, brokers))
    there = to_create(settings_of(spec.config, spec.defaults), defaults, replication, request.settings_left_alone)
    config = {key: value for key, value in there.changes.items() if value is not None}
    if request.COPIES:
        # From the first record on: a broker that has not seen a later change of the setting would stamp records anew.
        config[STAMPS] = OF_A_COPY[STAMPS]
    return replace(spec, config=config)


def with_trials(environment: Environment, case: PreflightCase, timeout_s: float) -> PreflightCase:
    """The case with the target's answers about the topics that are to be created there."""
    request, target = case.request, case.facts.clusters.get(case.request.target)
    if target is None or not target.reachable:
        return case
    specs = [
        as_made(spec, target.topic_defaults, len(target.brokers), request) for spec in _missing(case, case.moves.topics)
    ]
    try:
        trials = admin_of(environment, request.target).try_topics(specs, timeout_s) if specs else {}
    except (KafkaAdminError, RefusedError) as error:
        environment.say(f"{request.target} does not answer whether it would create these topics: {error}")
        return case
    return replace(case, trials=trials)


def _missing(case: PreflightCase, topics: Collection[str]) -> list[TopicSpec]:
    """Topics as the origin has them, if the target answers that it lacks them."""
    found = []
    for name in topics:
        here, there = case.here(name), case.facts.topic(case.request.target, name)
        if here is not None and there is not None and not there.exists:
            counts = max(here.partitions, 1), max(here.replication, 1)
            found.append(TopicSpec(name, *counts, here.config, defaults=here.defaults))
    return found
