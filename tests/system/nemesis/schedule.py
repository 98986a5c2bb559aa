"""The events of one round, drawn from a seed: pure, so that a round can be inspected and repeated.

A move runs step by step, each step in its own process, with a gap before each, like a scheduler's tasks.
Meanwhile clients of all kinds work, with any binding, and strikes fall: on a step that has begun, or
in the gap before it.
"""

import random
from dataclasses import dataclass, replace
from enum import StrEnum


class Kind(StrEnum):
    """How the topic moves."""

    SWITCH = "switch"
    BARRIER = "barrier"
    PREDICTED = "predicted"


STEPS: dict[Kind, tuple[str, ...]] = {
    Kind.SWITCH: ("compare", "prepare", "adopt", "cut_over", "verify", "record"),
    Kind.BARRIER: ("run",),
    Kind.PREDICTED: ("run", "settle"),
}
"""Steps after the operation's creation; the last one of a predicted move is repeated until the operation has ended."""


class Bound(StrEnum):
    """The cluster of the binding of a client's user."""

    ORIGIN = "origin"
    TARGET = "target"
    NOBODY = "nobody"


class Sends(StrEnum):
    PLAIN = "plain"
    IDEMPOTENT = "idempotent"
    SILENT = "silent"
    """acks=0."""
    TRANSACTIONAL = "transactional"
    HALVES = "halves"
    """One request in flight, sent by halves."""
    SILENT_HALVES = "silent halves"
    """Halves with acks=0, and halves with acks=1 after a complete request with acks=0."""


HALVES = (Sends.HALVES, Sends.SILENT_HALVES)


class Does(StrEnum):
    PAUSE = "pause"
    KILL = "kill"
    """Restarted when the strike is over, except for an executor."""


class Hits(StrEnum):
    GATEWAY_1 = "gateway/1"
    GATEWAY_2 = "gateway/2"
    ZOOKEEPER = "zookeeper"
    ORIGIN = "origin"
    TARGET = "target"
    EXECUTOR = "executor"


@dataclass(frozen=True, slots=True)
class Writer:
    name: str
    sends: Sends
    bound: Bound


@dataclass(frozen=True, slots=True)
class Strike:
    """Starts `delay_s` after the beginning of `step`, or, with `before`, in the gap before it."""

    does: Does
    hits: Hits
    step: str
    before: bool
    delay_s: float
    lasts_s: float
    at_the_fence: bool = False
    """Not before the topic is fenced, or a cut proposed: the window is too small to be hit by chance."""
    between_halves: bool = False
    """Halting senders pause meanwhile, most likely half-way: the rest comes when the part is back, which takes
    longer than any of their own halts."""

    def __str__(self) -> str:
        where = "before" if self.before else f"{self.delay_s:.2f} s into"
        fence = ", at its fence" if self.at_the_fence else ""
        halves = ", between halves" if self.between_halves else ""
        return f"{self.does} {self.hits} for {self.lasts_s:.1f} s, {where} {self.step}{fence}{halves}"


@dataclass(frozen=True, slots=True)
class Round:
    seed: int
    kind: Kind
    westward: bool
    """East, the default cluster, is the origin."""
    writers: tuple[Writer, ...]
    gaps_s: tuple[float, ...]
    """Seconds before each step."""
    strikes: tuple[Strike, ...]
    clock_s: float
    """Seconds by which the executor's clock is ahead of all others; negative: it is late."""

    @property
    def steps(self) -> tuple[str, ...]:
        return STEPS[self.kind]

    def __str__(self) -> str:
        route = "east to west" if self.westward else "west to east"
        gaps = ", ".join(f"{gap:.1f}" for gap in self.gaps_s)
        strikes = "; ".join(map(str, self.strikes)) or "no strike"
        return f"seed {self.seed}: {self.kind}, {route}, gaps of {gaps} s, clock {self.clock_s:+.0f} s: {strikes}"


SHORT_S, LONG_S = 1.5, 9.0
"""Shorter than a lease, and longer than any session."""
EVERYBODY = tuple(
    Writer(f"{sends.replace(' ', '-')}-{bound}", sends, bound)
    for sends, bound in (
        (Sends.PLAIN, Bound.ORIGIN),
        (Sends.PLAIN, Bound.TARGET),
        (Sends.IDEMPOTENT, Bound.NOBODY),
        (Sends.IDEMPOTENT, Bound.TARGET),
        (Sends.SILENT, Bound.ORIGIN),
        (Sends.TRANSACTIONAL, Bound.ORIGIN),
        (Sends.HALVES, Bound.ORIGIN),
        (Sends.HALVES, Bound.NOBODY),
        (Sends.SILENT_HALVES, Bound.ORIGIN),
    )
)


def drawn(seed: int, gap_s: float = 4.0) -> Round:
    """The round of a seed.

    :param gap_s: the longest gap before a step.
    """
    chance = random.Random(seed)
    kind = chance.choice(tuple(Kind))
    steps = STEPS[kind]
    # A transaction writes in its user's cluster: the user moves along, which only a switch can do.
    transactions = kind is Kind.SWITCH and chance.random() < 0.3
    halves = [one for one in EVERYBODY if one.sends in HALVES]
    others = [one for one in EVERYBODY if one not in halves and (one.sends is not Sends.TRANSACTIONAL or transactions)]
    writers = (*chance.sample(others, 3), *chance.sample(halves, 2))
    found = Round(
        seed=seed,
        kind=kind,
        westward=chance.random() < 0.5,
        writers=writers,
        gaps_s=tuple(chance.choice((0.0, chance.uniform(0, gap_s))) for _ in steps),
        strikes=tuple(_strikes(chance, steps)),
        clock_s=chance.choice((0.0, 0.0, -60.0, 60.0, 3600.0)),
    )
    # Drawn last, so that older seeds keep their meaning.
    return replace(found, strikes=tuple(_perhaps_between_halves(chance, strike) for strike in found.strikes))


def _perhaps_between_halves(chance: random.Random, strike: Strike) -> Strike:
    """Half of the strikes between a client and its records fall between halves."""
    apart = chance.random() < 0.5 and strike.hits not in (Hits.EXECUTOR, Hits.ZOOKEEPER)
    return replace(strike, between_halves=apart)


def _strikes(chance: random.Random, steps: tuple[str, ...]) -> list[Strike]:
    """None, one or two, on different parts. The executor is hit where clients may wait; half of the time they do."""
    strikes: list[Strike] = []
    for _ in range(chance.choice((0, 1, 1, 2))):
        hits = chance.choice((*Hits, Hits.EXECUTOR))
        does = chance.choice(tuple(Does))
        step = chance.choice(steps)
        before = chance.random() < 0.3
        if hits in (Hits.ORIGIN, Hits.TARGET):
            does = Does.KILL
        elif hits is Hits.ZOOKEEPER:
            does = Does.PAUSE
        elif hits is Hits.EXECUTOR:
            step, before = "cut_over" if "cut_over" in steps else "run", False
        fence = hits is Hits.EXECUTOR and chance.random() < 0.5
        lasts_s = chance.choice((SHORT_S, LONG_S))
        strike = Strike(does, hits, step, before, chance.uniform(0, 0.6), lasts_s, fence)
        if all(one.hits is not hits for one in strikes):
            strikes.append(strike)
    return strikes
