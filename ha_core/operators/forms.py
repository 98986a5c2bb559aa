"""The fields that forms have in common; what they mean in each is said by the caller.

A form opens with *Dry run*, and it is on: whoever fills in a form for the first time changes nothing. What has to be
said stands beside it, in the same section; the rest is folded away below.

No text has inline code: Airflow draws it so high that it hides the lines above and below.
"""

from __future__ import annotations

from airflow.sdk import Param

from ha_core.operators.known_clusters import known_clusters

WHAT, HOW, SAFETY = "Run Parameters", "How", "Safety"
"""Sections, in this order. The first has the name of Airflow's own, the only one that is unfolded when a form opens."""
FIRST = "dry_run"
"""The first field of every form that changes something."""


def dry_run(text: str) -> Param:
    return Param(
        True,
        type="boolean",
        title="Dry run",
        description_md=f"{text} Look at its result first, then run it again without.",
        section=WHAT,
    )


def scheduled_dry_run(text: str) -> Param:
    """Off: runs by the clock take the form as it stands."""
    return Param(
        False,
        type="boolean",
        title="Dry run",
        description_md=f"{text} Off in the form, because the runs by the clock take it as it stands.",
        section=WHAT,
    )


def cluster(title: str, text: str) -> Param:
    """A cluster's name: those that are registered are proposed, and any other can be typed."""
    names = known_clusters()
    return Param(
        type="string",
        minLength=1,
        title=title,
        description_md=f"{text} The command **switchyard clusters list** shows their names.",
        section=WHAT,
        **({"examples": list(names)} if names else {}),
    )


def scope() -> Param:
    """What a switch moves, in the syntax of the command line."""
    return Param(
        type="array",
        minItems=1,
        items={"type": "string", "minLength": 1},
        title="Scope",
        description_md="As on the command line, one entry a line. **user:NAME**: the user with all topics and groups "
        "that it uses, declared or seen by the gateways. **user:NAME+CLIENT-ID**: one client of it. "
        "**user:NAME#TOPIC**, **user:NAME##GROUP**: one topic, one group of it. **topic:NAME**: the topic alone; "
        "groups and bindings stay. **topic:NAME:0,4-7**: partitions of it. In names %, + and # are written "
        "%25, %2B and %23.",
        section=WHAT,
    )


def topics(text: str) -> Param:
    """Names or patterns, at least one."""
    return Param(
        type="array",
        minItems=1,
        items={"type": "string", "minLength": 1},
        title="Topics",
        description_md=text,
        section=WHAT,
    )


def reason() -> Param:
    return Param(
        type="string",
        minLength=3,
        title="Reason",
        description_md="Why, for the history that is never deleted. A ticket number is a good reason.",
        section=WHAT,
    )


def unread(required: bool) -> Param:
    """What readers do that have not read all of a dead cluster's records. There is no default: it may lose records."""
    title = "Unread records"
    text = (
        "What readers do that have not read all of the dead cluster's records. *wait*: they get nothing until it is "
        "back, then its records, and nothing is lost. *skip*: they go on at the cut, without them."
    )
    words = {"wait": "wait until the cluster is back", "skip": "skip: go on at the cut"}
    if required:
        return Param(
            type="string",
            enum=["wait", "skip"],
            values_display=words,
            title=title,
            description_md=f"{text} Somebody has to say it.",
            section=WHAT,
        )
    return Param(
        None,
        type=["null", "string"],
        enum=[None, "wait", "skip"],
        values_display=words,
        title=f"Forced: {title.lower()}",
        description_md=f"{text} Mode *forced* only, and there somebody has to say it.",
        section=HOW,
    )


def approval() -> Param:
    return Param(
        "nobody",
        type="string",
        enum=["nobody", "anybody", "somebody else"],
        values_display={
            "nobody": "nobody: it goes on by itself",
            "anybody": "anybody, you as well",
            "somebody else": "somebody else than who has triggered it",
        },
        title="Who approves",
        description_md="Wait for a human (*Required Actions*) after the task **plan**. No lock is held while waiting; "
        "without an answer it is rejected after a day.",
        section=SAFETY,
    )


def drain_timeout_s(text: str) -> Param:
    return Param(
        10,
        type="number",
        exclusiveMinimum=0,
        maximum=600,
        title="Drain timeout, seconds",
        description_md=text,
        section=SAFETY,
    )


def some_topics() -> Param:
    """Of upkeep: names or patterns; none: all."""
    return Param(
        [],
        type=["array", "null"],
        items={"type": "string", "minLength": 1},
        title="Topics",
        description_md="Names or patterns such as **orders-\\***, one a line. Empty: all.",
        section=WHAT,
    )


def decision(title: str, text: str) -> Param:
    """Something that only a human decides."""
    return Param(False, type="boolean", title=title, description_md=text, section=SAFETY)


def usual_reason(text: str) -> Param:
    """One that need not be written: that of scheduled runs, or of what explains itself."""
    return Param(text, type="string", minLength=3, title="Reason", description_md="Why, for the history.", section=WHAT)
