"""Pre-flight of topics that have a mirror, or are to get one."""

from __future__ import annotations

from ha_core.plan.preflight.case import Case
from ha_core.plan.verdict import Verdict, Verdicts, duration, error, info, listed, warning


def mirrored(case: Case) -> Verdicts:
    """A topic with a mirror goes nowhere but to its copy: copiers would go on copying what nobody writes any more."""
    request = case.request
    for mirror in case.view.mirrors.values():
        name = mirror.topic
        if name not in case.moves.topics or case.to_copies.get(name) is mirror:
            continue
        if (mirror.source, mirror.target) != (request.origin, request.target):
            what, way = "can be moved there, to its copy, and nowhere else", f"Move it to {mirror.target}"
        elif name in request.scope.partitions:
            what, way = "goes to its copy as a whole", f"Move topic {name} as a whole"
        else:
            what, way = "goes to its copy behind a fence", f"Use `switchyard switch topic:{name}`, or --cut barrier"
        yield error(
            "mirrored",
            f"topic {name}",
            f"Topic {name} of {mirror.source} is mirrored to {mirror.target}, since {mirror.since}: it {what}.",
            f"{way}, or end the mirror first: `switchyard mirror unlink {name} --to {mirror.target}`.",
        )


def to_copies(case: Case) -> Verdicts:
    """What becomes of topics whose copies become their logs."""
    origin, target = case.request.origin, case.request.target
    for name in sorted(case.to_copies):
        about, there = f"topic {name}", case.facts.topic(target, name)
        if there is not None and not there.exists:
            yield error(
                "deleted-in-target",
                about,
                f"Topic {name} is mirrored to {target}, and its copy there was deleted.",
                f"`switchyard mirror unlink {name} --to {target}`; then it is moved as one that has no mirror.",
            )
        elif case.request.mode == "forced":
            yield _behind(case, name, f"Topic {name} goes on at its copy in {target}", origin)
        else:
            yield _to_level(case, name)


def _to_level(case: Case, name: str) -> Verdict:
    """What a planned switch copies first, as far as that was reported."""
    about, mirror = f"topic {name}", case.to_copies[name]
    text = f"Topic {name} goes to its copy in {mirror.target}"
    known = [lag for (key, _), lag in case.lags.items() if key == mirror.key]
    if not known:
        text += ". Nobody has reported how far that is: the switch copies what is missing before clients wait."
        return warning("copy-unknown", about, text, "Start the job that copies mirrors first, if much may be missing.")
    records, age_s = sum(lag.records for lag in known), max(lag.age_s for lag in known)
    text += f", which lacked {f'{records:,} records' if records else 'nothing'} as of {duration(age_s)} ago"
    way = f"Nothing. What is missing is copied first; afterwards {mirror.source} has the copy."
    stuck = sum(not lag.copying for lag in known)
    halted = f"; {stuck} of {len(known)} partitions were not copied then (`switchyard mirrors`)" if stuck else ""
    return (warning if stuck else info)("goes-to-copy", about, f"{text}{halted}.", way)


def _behind(case: Case, name: str, text: str, origin: str) -> Verdict:
    """What a forced switch loses, as far as that was reported."""
    about = f"topic {name}"
    way = f"Nothing. What is beyond the copy stays in {origin}: `switchyard mirror reconcile {origin}` counts it later."
    key = case.to_copies[name].key
    known = {partition: lag for (mirror, partition), lag in case.lags.items() if mirror == key}
    if not known:
        lost = f"How far that is nobody has reported: what {origin} acknowledged beyond it is lost for readers."
        return warning("copy-unknown", about, f"{text}. {lost}", way)
    records, age_s = sum(lag.records for lag in known.values()), max(lag.age_s for lag in known.values())
    oldest_s = max((lag.ms or 0) for lag in known.values()) / 1000
    said = f"{records:,} records, the oldest of {oldest_s:.1f} s," if records else "nothing"
    stuck = [f"partition {partition}" for partition, lag in sorted(known.items()) if not lag.copying]
    halted = f" {listed(stuck)} was not copied then." if stuck else ""
    text = f"{text}, which lacked {said} as of {duration(age_s)} ago; that, and what {origin} got since, is lost."
    return (warning if records or stuck else info)("goes-to-copy", about, f"{text}{halted}", way)


def one_copy(case: Case) -> Verdicts:
    """What a new mirror may not be beside."""
    target = case.request.target
    for mirror in case.view.mirrors.values():
        if mirror.topic not in case.moves.topics or mirror.target != target:
            continue
        yield error(
            "mirrored",
            f"topic {mirror.topic}",
            f"Topic {mirror.topic} is mirrored to {target} already, from {mirror.source} since {mirror.since}.",
            "Leave it out: `switchyard mirrors` shows how far it is.",
        )


def whole_topics(case: Case) -> Verdicts:
    """Copiers read one cluster."""
    for name in case.moves.topics:
        topic = case.view.mapped(name)
        if topic is None:
            continue
        elsewhere = sorted(topic.clusters - {case.request.origin})
        if elsewhere:
            yield error(
                "written-elsewhere",
                f"topic {name}",
                f"Topic {name} has records in {', '.join(elsewhere)} as well: a mirror has one source.",
                f"Wait until they have aged (`switchyard age {name}`), then mirror it.",
            )
