"""Limits a mirror's bytes a second, in one revision. Its copiers continue without interruption."""

from collections.abc import Collection
from dataclasses import dataclass

from ha_core.model import LEAST_BYTES_S, Document, Mirror
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operations.engine.report import Report
from ha_core.operations.engine.single import run_single
from ha_core.plan.facts.verdict import listed
from ha_core.plan.mirror.mirrored_topics import NoSuchMirrorError, named
from ha_core.store.commits import Key

UNLIMITED = "none"


@dataclass(frozen=True, slots=True)
class ThrottleResult:
    """The result in words; `report` is None if every mirror had that limit already, and for a dry run."""

    words: str
    report: Report | None = None


def limit_of(text: str) -> int | None:
    """Bytes a second; None: unlimited.

    :param text: a number, or `none`.
    :raises RefusedError: it is neither.
    """
    if text.strip().lower() == UNLIMITED:
        return None
    try:
        limit = int(text.strip().replace("_", ""))
    except ValueError:
        limit = -1
    if limit < LEAST_BYTES_S:
        raise RefusedError(f"A limit of {text!r} bytes a second: give {LEAST_BYTES_S} or more, or {UNLIMITED}.")
    return limit


def limit_words(max_bytes_s: int | None) -> str:
    """The limit in words."""
    return "as fast as it goes" if max_bytes_s is None else f"{max_bytes_s:,} bytes a second at most"


def throttle(
    environment: Environment,
    topics: Collection[str],
    target: str,
    max_bytes_s: int | None,
    reason: str,
    dry_run: bool = False,
) -> ThrottleResult:
    """Limit each mirror of `topics`, see `ha_core.plan.mirror.mirrored_topics`.

    :param dry_run: only list the mirrors that would be limited.
    :raises RefusedError: a topic has no mirror, or several and no `target` is given, or there is no reason.
    :raises LockedError: an operation works on one of them.
    """
    if not reason.strip():
        raise RefusedError("Limiting a mirror needs a reason. Give --reason.")
    others = to_throttle(environment, topics, target, max_bytes_s)
    limit = limit_words(max_bytes_s)
    if not others:
        return ThrottleResult(f"nothing was changed: each is copied {limit} already")
    if dry_run:
        return ThrottleResult(f"{listed(others)}: would be copied {limit}")
    puts, expected = list[Document](), dict[Key, int | None]()
    for key in others:
        stored = environment.store.read(Mirror, key)
        if stored is None:
            raise unchanged(f"The mirror {key} has ended meanwhile. Run it again.")
        puts.append(stored[0].changed(max_bytes_s=max_bytes_s))
        expected[Mirror, key] = stored[1]
    detail = {"mirrors": others, "max_bytes_s": max_bytes_s, "reason": reason}
    report = run_single(environment, "throttle", reason, puts, expected, detail)
    return ThrottleResult(f"{listed(others)}: copied {limit}", report)


def to_throttle(environment: Environment, topics: Collection[str], target: str, max_bytes_s: int | None) -> list[str]:
    """Keys of the mirrors of `topics` that have another limit. Changes nothing.

    :raises RefusedError: a topic has no mirror, or several and no `target` is given.
    """
    try:
        chosen = named(environment.store.load().mirrors.values(), topics, target)
    except NoSuchMirrorError as error:
        raise RefusedError(str(error)) from error
    return [mirror.key for mirror in chosen if mirror.max_bytes_s != max_bytes_s]
