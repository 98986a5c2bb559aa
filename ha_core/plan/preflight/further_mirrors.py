"""Pre-flight of further mirrors of topics that move to a copy: they go on from the target, or end."""

from collections.abc import Iterator

from ha_core.model import Mirror
from ha_core.plan.facts.verdict import Verdict, Verdicts, amount, error, info, listed, warning
from ha_core.plan.preflight.case import PreflightCase
from ha_core.plan.preflight.copy_lag import CopyLagBound, lag_bound


def further(case: PreflightCase) -> Verdicts:
    """Mirrors from other clusters than the origin stay as they are."""
    origin, target = case.request.origin, case.request.target
    judge = _planned if case.request.mode == "planned" else _forced
    for mirror in case.view.mirrors.values():
        if mirror.topic in case.to_copies and mirror.source == origin and mirror.target != target:
            yield judge(case, mirror, f"Topic {mirror.topic} is mirrored to {mirror.target}, too")


def _planned(case: PreflightCase, mirror: Mirror, since: str) -> Verdict:
    """A planned switch throws no copy away: it is refused while a further copy cannot be looked at."""
    name, target, about = mirror.topic, mirror.target, f"topic {mirror.topic}"
    end = f"`switchyard mirror unlink {name} --to {target}` ends that mirror"
    there, stopped = case.facts.topic(target, name), dict(_stopped(case, mirror))
    if not case.answers(target):
        text = f"{since}, and {target} does not answer: whether that mirror can go on is unknown."
        return error("third-cluster", about, text, f"Wait until it answers; or {end}.", cause="away")
    if there is not None and not there.exists:
        return error("third-cluster", about, f"{since}, and its copy there was deleted.", f"{end}.")
    if stopped:
        why = listed(f"partition {partition} ({reason or 'no reason'})" for partition, reason in stopped.items())
        text = f"{since}, and its copy there has stopped partitions: {why}."
        return error("third-cluster", about, text, f"Resolve the given reason (`switchyard mirrors`); or {end}.")
    text = f"{since}{_lacked(lag_bound(case, mirror))}. That mirror goes on from {case.request.target}, where it is."
    return info("also-mirrored", about, text, "Nothing. No client waits for it.")


def _forced(case: PreflightCase, mirror: Mirror, since: str) -> Verdict:
    """By the copiers' last reports. The switch itself looks at both copies."""
    name, target, about, bound = mirror.topic, case.request.target, f"topic {mirror.topic}", lag_bound(case, mirror)
    chosen = case.to_copies[name]
    reached = [(_reached(case, chosen, partition), _reached(case, mirror, partition)) for partition in bound.reported]
    more = sum(max(other - ours, 0) for ours, other in reached if ours is not None and other is not None)
    again = (
        f"Fetch the records there that you need, delete the topic in {mirror.target}, then `switchyard mirror link "
        f"{name} --from {target} --to {mirror.target}`"
    )
    if more:
        text = (
            f"{since}, and its copy there had {amount(more, 'offset')} more than the one in {target}: clients lose "
            "these records, that mirror ends, and its copy is left as it is."
        )
        way = f"Switch to {mirror.target}, which has them; or nothing. After the switch: {again}."
        return warning("third-cluster", about, text, way, number=more, unit="offsets")
    text = (
        f"{since}{_lacked(bound)}. That mirror goes on from {target}, where it is, unless its copy has records that "
        "the one there lacks."
    )
    unknown = bound.unknown or not reached or any(None in pair for pair in reached)
    way = f"Nothing. If its copy has such records, it ends, and the result says so. {again}."
    return (warning if unknown else info)("also-mirrored", about, text, way)


def _lacked(bound: CopyLagBound) -> str:
    if not bound.reported:
        return " (no copier reports its lag)"
    return f", which lacked {bound.lacked}" + (f" ({bound.unknown_words})" if bound.unknown else "")


def _stopped(case: PreflightCase, mirror: Mirror) -> Iterator[tuple[int, str]]:
    """(partition, reason)"""
    for (key, partition), lag in sorted(case.lags.items()):
        if key == mirror.key and lag.state == "stopped":
            yield partition, lag.reason


def _reached(case: PreflightCase, mirror: Mirror, partition: int) -> int | None:
    lag = case.lags.get((mirror.key, partition))
    return None if lag is None else lag.reached
