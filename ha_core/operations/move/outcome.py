"""Sentences in the result of a switch: about copies (topics that moved to them or stayed, and places of records), and
about offsets without a record below a forced cut."""

from ha_core.model import SwitchOperation
from ha_core.plan.facts.verdict import amount, listed

CUT_OVER = "cut over and verified"


def of_copies(operation: SwitchOperation) -> tuple[str, ...]:
    """Empty texts are to be skipped."""
    return (
        _beyond(operation),
        stayed(operation),
        partly(operation),
        left_behind(operation),
        gone(operation),
        repointed(operation),
        ended_too(operation),
    )


def over_holes(operation: SwitchOperation) -> str:
    """Offsets without a record below forced cuts, for tools that count offsets as records; empty: there are none."""
    holes = [hole for some in operation.evidence.holes.values() for hole in some.values()]
    if not holes:
        return ""
    where = f"{amount(len(holes), 'cut')}, {max(holes):,} at most below one" if len(holes) > 1 else "the cut"
    offsets = amount(sum(holes), "offset", "has", "have")
    return f'{offsets} no record, below {where} ("Over the hole" in docs/migrating.md)'


def _beyond(operation: SwitchOperation) -> str:
    """How to count the records that a dead origin may have above its copies; empty: no topic moved to a copy."""
    mirrored, origin = operation.evidence.went_to_copies, operation.request.origin
    if operation.request.mode != "forced" or not mirrored:
        return ""
    return f"`switchyard mirror reconcile {origin}`, when it is back, counts what no copy had"


def stayed(operation: SwitchOperation) -> str:
    """Topics that did not move, with the way out; empty: all did."""
    if not operation.evidence.stayed:
        return ""
    origin, target = operation.route
    return (
        f"{listed(sorted(operation.evidence.stayed))} stayed in {origin}, as their copies in {target} are damaged: "
        f"when {origin} is back they are written there again. If it never is, --damaged-copies good-part continues at "
        f"the end of their good part; delete nothing in {target} before that"
    )


def partly(operation: SwitchOperation) -> str:
    """Topics that continue at the good part of a damaged copy; empty: none."""
    if not operation.evidence.partly:
        return ""
    why = listed(f"{name} ({damage})" for name, damage in sorted(operation.evidence.partly.items()))
    return f"only the good part of damaged copies is read: {why}"


def left_behind(operation: SwitchOperation) -> str:
    """Records that copies hold and readers do not get from there; empty: none."""
    left, origin = operation.evidence.left_to_origin, operation.request.origin
    if not left:
        return ""
    what = (
        f"{sum(left.values()):,} older records of {listed(left)} are read in {origin} only, though the copies have them"
    )
    if operation.request.mode == "planned":
        return f"{what} (too many gaps): keep {origin} until they have aged"
    return f"{what} (too many gaps): they cannot be read until it is back, and giving it up would lose them for readers"


def gone(operation: SwitchOperation) -> str:
    """Records that copies had deleted before the cut and the origin had not; empty: none."""
    found, request = operation.evidence.gone_from_copies, operation.request
    if not found:
        return ""
    prefix = "" if request.mode == "planned" else "at most "
    what = (
        f"{request.target} had deleted {prefix}{amount(sum(found.values()), 'record')} of {listed(found)} that "
        f"{request.origin} {'has' if request.mode == 'planned' else 'had'}"
    )
    if request.mode == "planned":
        return f"{what}: readers get them there, so keep {request.origin} until they have aged"
    if request.unread == "skip":
        return f"{what}: readers skip them"
    return f"{what}: they cannot be read until it is back, and giving it up would lose them for readers"


def repointed(operation: SwitchOperation) -> str:
    """Further mirrors that go on from the new writer; empty: none."""
    evidence = operation.evidence
    there = [f"{one.topic} in {one.target}" for one in evidence.further if one.key not in evidence.kept_out]
    return f"the mirrors of {listed(there)} go on from {operation.request.target}" if there else ""


def ended_too(operation: SwitchOperation) -> str:
    """Further mirrors that do not go on, with the reasons and the way out; empty: all do."""
    evidence = operation.evidence
    if not evidence.ended_too:
        return ""
    ended = listed(f"{one.topic} in {one.target} ({evidence.kept_out[one.key]})" for one in evidence.ended_too)
    return (
        f"the mirrors of {ended} have ended, and no client is led to their copies: fetch the records there that you "
        f"need, delete the topic there, then `switchyard mirror link TOPIC --from {operation.request.target} --to "
        "CLUSTER`"
    )
