"""Pre-flight of topics that are to get a mirror: one source, one copier, no circle."""

from __future__ import annotations

from collections.abc import Collection

from ha_core.model import Mirror
from ha_core.plan.facts.verdict import Verdicts, error, listed
from ha_core.plan.preflight.case import PreflightCase


def one_copier(case: PreflightCase) -> Verdicts:
    """A copy has one writer, the copier of its mirror."""
    origin, target = case.request.origin, case.request.target
    for mirror in case.view.mirrors.values():
        if mirror.topic not in case.moves.topics or mirror.target != target:
            continue
        about = f"topic {mirror.topic}"
        text = f"Topic {mirror.topic} is mirrored to {target} already, from {mirror.source} since {mirror.since}"
        if mirror.source == origin:
            yield error("mirrored", about, f"{text}.", "Leave it out: `switchyard mirrors` shows its lag.")
        else:
            way = f"End that mirror first: `switchyard mirror unlink {mirror.topic} --to {target}`."
            yield error("second-writer", about, f"{text}: the copy would have two writers.", way)


def no_circle(case: PreflightCase) -> Verdicts:
    """Copied records must not return to their source as new ones."""
    origin, target = case.request.origin, case.request.target
    for name in case.closure.moves.topics:
        way_back = _path([one for one in case.view.mirrors.values() if one.topic == name], target, origin)
        if way_back:
            path = " → ".join([*way_back, target])
            yield error(
                "loop",
                f"topic {name}",
                f"Topic {name} is mirrored from {target} to {origin}: with this mirror its records would go in a "
                f"circle, {path}.",
                f"End the mirror in {origin} first (`switchyard mirror unlink {name} --to {origin}`), or switch the "
                f"topic to {origin}, which reverses the mirror.",
            )


def _path(mirrors: Collection[Mirror], start: str, end: str) -> list[str]:
    """Clusters on a path of mirrors from `start` to `end`, both included; empty: none."""
    ways, seen = [[start]], {start}
    while ways:
        way = ways.pop()
        if way[-1] == end:
            return way
        for one in mirrors:
            if one.source == way[-1] and one.target not in seen:
                seen.add(one.target)
                ways.append([*way, one.target])
    return []


def one_source(case: PreflightCase) -> Verdicts:
    """A mirror has one source, and only copiers have written to its copy."""
    origin, target = case.request.origin, case.request.target
    for name in case.moves.topics:
        topic, about = case.view.mapped(name), f"topic {name}"
        if topic is None or not topic.sound:
            continue
        written = {
            cluster: sum(topic.written(p).cluster == cluster for p in topic.partitions) for cluster in topic.writers
        }
        if written.pop(target, 0):
            yield error(
                "second-writer",
                about,
                f"Topic {name} is written in {target}, in part: its copy would have two writers.",
                f"Move these partitions to {origin} first, or mirror the topic the other way when all of it is in "
                f"{target}.",
            )
        elif others := sorted(written.keys() - {origin}):
            yield error(
                "third-cluster",
                about,
                f"Topic {name} is written in {listed(others)} as well, and two clusters stand in for each other.",
                f"Move all of it to {origin} first: `switchyard switch topic:{name} --from {others[0]} --to {origin}`.",
            )
        elif older := sorted(topic.clusters - {origin}):
            yield error(
                "written-elsewhere",
                about,
                f"Topic {name} has records in {listed(older)} as well: a mirror has one source.",
                f"Wait until they have aged (`switchyard age {name}`), then mirror it.",
            )


def not_migrating(case: PreflightCase) -> Verdicts:
    """While cuts lie ahead, the source is undecided."""
    for name in case.closure.moves.topics:
        topic = case.view.topics.get(name)
        if topic is not None and topic.crossing is not None:
            yield error(
                "migrating",
                f"topic {name}",
                f"Topic {name} is migrating, in operation {topic.crossing.operation}: a mirror has one source.",
                f"Let it end (`switchyard migrations` shows it), or `switchyard rollback {topic.crossing.operation}`.",
            )
