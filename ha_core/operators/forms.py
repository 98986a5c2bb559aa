"""The fields that forms have in common; what they mean in each is said by the caller."""

from __future__ import annotations

from airflow.sdk import Param


def cluster(title: str, text: str) -> Param:
    """One of the two clusters of a move."""
    return Param(
        type="string",
        minLength=1,
        title=title,
        description_md=text,
        examples=["east", "west"],
        section="Where",
    )


def topics(text: str) -> Param:
    """Names or patterns, at least one."""
    return Param(
        type="array",
        minItems=1,
        items={"type": "string", "minLength": 1},
        title="Topics",
        description_md=text,
        section="What moves",
    )


def reason() -> Param:
    return Param(
        type="string",
        minLength=3,
        title="Reason",
        description_md="Why, for the history that is never deleted. A ticket number is a good reason.",
        section="Safety",
    )


def dry_run(text: str) -> Param:
    return Param(False, type="boolean", title="Dry run", description_md=text, section="Safety")


def approval() -> Param:
    return Param(
        False,
        type="boolean",
        title="Ask for approval",
        description_md="Wait for a human (*Required Actions*) after `plan`. No lock is held while waiting.",
        section="Safety",
    )


def drain_timeout_s(text: str) -> Param:
    return Param(
        10,
        type="number",
        exclusiveMinimum=0,
        maximum=600,
        title="Drain timeout, seconds",
        description_md=text,
        section="Safety",
    )


def some_topics() -> Param:
    """Of upkeep: names or patterns; none: all."""
    return Param(
        [],
        type=["array", "null"],
        items={"type": "string", "minLength": 1},
        title="Topics",
        description_md="Names or patterns such as `orders-*`, one a line. Empty: all.",
        section="What",
    )


def decision(title: str, text: str) -> Param:
    """Of upkeep: something that only a human decides."""
    return Param(False, type="boolean", title=title, description_md=text, section="Decisions")


def usual_reason(text: str) -> Param:
    """Of upkeep: scheduled runs have this one."""
    return Param(
        text, type="string", minLength=3, title="Reason", description_md="Why, for the history.", section="Decisions"
    )
