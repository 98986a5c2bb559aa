"""Pre-flight of settings: effects of the target's defaults on topics, and settings that it refuses."""

from collections.abc import Iterator

from ha_core.plan.facts.clusters import TopicFacts
from ha_core.plan.facts.settings import (
    DIFFERENCE,
    MIN_IN_SYNC,
    OUTDATED,
    UNCLEAN,
    differing,
    settings_of,
    to_create,
)
from ha_core.plan.facts.verdict import Verdicts, amount, error, info, listed, warning
from ha_core.plan.preflight.case import PreflightCase

_HARMLESS = OUTDATED | {DIFFERENCE}
"""Settings that newer brokers do not know, because they always apply them or no longer need them."""


def not_taken(case: PreflightCase) -> Verdicts:
    """The target's objections to topics that are to be created there, from validating them."""
    origin, target = case.request.origin, case.request.target
    for topic, trial in sorted(case.trials.items()):
        about = f"topic {topic}"
        if trial.why:
            text = f"{target} would not create topic {topic}: {trial.why.rstrip('.')}."
            yield error("not-created", about, text, f"Repair that in {target}, or leave topic {topic} out.")
        for key, (value, why) in sorted(trial.refused.items()):
            yield error(
                "setting-refused",
                about,
                f"{target} refuses {key}={value} of topic {topic}: {why.rstrip('.')}.",
                f"Change it in {origin}; or create the topic without: --leave-setting {key}.",
            )
        for key, value in sorted(trial.unknown.items()):
            text = f"{target} does not know {key}, which is {value} for topic {topic}: it is created without."
            if key in _HARMLESS:
                yield info("setting-unknown", about, text, "Nothing: newer brokers no longer need it.")
            else:
                way = f"Nothing, if topic {topic} can do without it in {target}; else choose another target."
                yield warning("setting-unknown", about, text, way)


def made_explicit(case: PreflightCase) -> Verdicts:
    """Topics to be created for which the brokers' defaults differ: they get their own value in the target."""
    origin, target = case.request.origin, case.request.target
    facts = case.facts.clusters.get(target)
    defaults, brokers = ({}, 1) if facts is None else (facts.topic_defaults, len(facts.brokers))
    topics: dict[tuple[str, str, str], list[str]] = {}
    for name, here in _to_be_created(case):
        source = settings_of(here.config, here.defaults)
        due = to_create(source, defaults, max(1, min(here.replication, brokers)), case.request.settings_left_alone)
        for key, there in due.explicit.items():
            topics.setdefault((key, due.changes[key] or "", there), []).append(name)
    for (key, value, there), names in sorted(topics.items()):
        other = f"that of {target} is {there}" if there else f"that of {target} is not known"
        yield info(
            "default-differs",
            f"setting {key}",
            f"{amount(len(names), 'topic')} ({listed(names)}) without {key}: the default of {origin} is {value}, "
            f"{other}. Each gets its own {key}={value} in {target}.",
            f"Nothing. To use the default of {target}: --leave-setting {key}.",
            number=len(names),
            unit="topics",
        )


def _to_be_created(case: PreflightCase) -> Iterator[tuple[str, TopicFacts]]:
    for name, here in case.in_origin():
        there = case.facts.topic(case.request.target, name)
        if there is not None and not there.exists:
            yield name, here


def differing_there(case: PreflightCase) -> Verdicts:
    """Topics that exist in the target with other settings than in the origin. Copies are not judged: they get their
    settings from their sources."""
    origin, target = case.request.origin, case.request.target
    for name, here in case.in_origin():
        there = case.facts.topic(target, name)
        if there is None or not there.exists or name in case.to_copies:
            continue
        source, copy = (settings_of(topic.config, topic.defaults) for topic in (here, there))
        found = list(differing(source, copy, max(there.replication, 1), case.request.settings_left_alone))
        if not found:
            continue
        wanted = ",".join(f"{one.key}=[{one.here}]" if "," in one.here else f"{one.key}={one.here}" for one in found)
        command = f"kafka-configs.sh --alter --entity-type topics --entity-name {name} --add-config {wanted}"
        leave = " ".join(f"--leave-setting {one.key}" for one in found)
        loses = any(one.loses for one in found) and case.request.mode == "planned"
        yield (error if loses else warning)(
            "setting-differs",
            f"topic {name}",
            f"Topic {name} exists in {target} with other settings than in {origin}: "
            f"{'; '.join(one.words for one in found)}.",
            f"Set them there (`{command}`), or use those of {target}: {leave}.",
            number=len(found),
            unit="settings",
        )


def unsafe_origin(case: PreflightCase) -> Verdicts:
    """Origins that may lose acknowledged records above a cut ahead."""
    origin = case.request.origin
    unclean, single = list[str](), list[str]()
    for name in case.ahead:
        here = case.here(name)
        if here is None:
            continue
        settings = {**here.defaults, **here.config}
        if settings.get(UNCLEAN) == "true":
            unclean.append(name)
        if here.min_in_sync < 2:
            single.append(name)
    if unclean:
        yield warning(
            "unsafe-origin",
            f"cluster {origin}",
            f"{origin} may elect leaders that lack acknowledged records of {amount(len(unclean), 'topic')} "
            f"({listed(unclean)}; {UNCLEAN}=true): a log that is truncated below a cut assigns offsets twice.",
            f"Set {UNCLEAN}=false for them in {origin} first, or take --cut barrier.",
            number=len(unclean),
            unit="topics",
        )
    if single:
        yield info(
            "unsafe-origin",
            f"cluster {origin}",
            f"{origin} acknowledges records of {amount(len(single), 'topic')} ({listed(single)}) with one replica in "
            f"sync ({MIN_IN_SYNC}=1): with that broker they are lost, even if the topic crosses over.",
            f"Nothing, if that was always so; else raise {MIN_IN_SYNC} in {origin} first.",
            number=len(single),
            unit="topics",
        )
