"""The form of a DAG: the fields that several have in common, the clusters that they propose, and keys that they refuse.

A form opens with *Dry run*, and it is on: whoever fills in a form for the first time changes nothing. What has to be
said stands beside it, in the same section; the rest is folded away below. No text has inline code: Airflow draws it so
high that it hides the lines above and below.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from airflow.sdk import Param, Variable, get_parsing_context
from airflow.sdk.definitions.param import DagParam
from airflow.sdk.exceptions import AirflowFailException

WHAT, HOW, SAFETY = "Run Parameters", "How", "Safety"
"""Sections, in this order. The first has the name of Airflow's own, the only one that is unfolded when a form opens."""

FIRST = "dry_run"
"""The first field of every form that changes something."""


class FormField(DagParam):  # type: ignore[misc]  # airflow is not typed here
    """The value of a field of the run's form, as an argument of an operator: typed, where a template renders texts.

    :param default: where the DAG has no such field; without it the argument has to be given then.
    """

    def __init__(self, name: str, default: Any = ...) -> None:  # of no DAG: it is looked up in that of the task
        self.name = name
        self.default = default

    def resolve(self, context: Any) -> Any:
        value = context["params"].get(self.name, self.default)
        if value is ...:
            raise AirflowFailException(
                f"Nothing was changed. There is no {self.name!r}: give it to the task as an argument, or the DAG a "
                "param of this name."
            )
        return value

    def serialize(self) -> str:
        return f"{{{{ params[{self.name!r}] }}}}"


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


def of_cluster(reason: Param, **more: Param) -> dict[str, Param]:
    """The form of what is done to one cluster."""
    which = cluster("Cluster", "The one to change.")
    return {FIRST: dry_run("Only show who depends on the cluster."), "cluster": which, "reason": reason, **more}


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


VARIABLE = "switchyard_clusters"
"""A JSON list of names."""

MAX_PROPOSED = 200

_log = logging.getLogger("switchyard.forms")


def known_clusters() -> tuple[str, ...]:
    """The names as last written; none where nothing was written yet. Never raises: a form without them works too.

    A task does not show its form, so it does not ask: each would wait for the API server.
    """
    if get_parsing_context().dag_id is not None:
        return ()
    try:
        names = json.loads(Variable.get(VARIABLE, default=None) or "[]")
        return tuple(sorted({name for name in names if isinstance(name, str) and name}))[:MAX_PROPOSED]
    except Exception as error:  # whatever is wrong with the variable, the DAG can be triggered
        _log.warning("the variable %s cannot be used, so forms propose no clusters: %s", VARIABLE, error)
        return ()


def propose(names: Collection[str]) -> bool:
    """Write the names down for the next forms. True: they have changed. Never raises: forms work without."""
    wanted = json.dumps(sorted(names)[:MAX_PROPOSED])
    try:
        if Variable.get(VARIABLE, default=None) == wanted:
            return False
        Variable.set(VARIABLE, wanted, description="Clusters that Switchyard's forms propose (record_facts)")
    except Exception as error:  # what was recorded counts more than what forms propose
        _log.warning("the variable %s cannot be written, so forms propose what they did: %s", VARIABLE, error)
        return False
    return True


def refuse_unknown_keys(context: Any) -> None:
    """:raises RefusedError: the run's configuration has a key that is no field of the form; names the nearest one."""
    from ha_core.operations.errors import RefusedError

    conf = context["dag_run"].conf
    words = unknown_words(conf or {}, fields_of(context["dag"].params))
    if words:
        raise RefusedError(f"Nothing was changed. {words}")


def fields_of(params: Any) -> set[str]:
    """The fields that a DAG declares. Every one of ours has a title; what a configuration adds has none."""
    return {name for name in params if params.get_param(name).schema.get("title")}


def unknown_words(conf: Collection[str], fields: Collection[str]) -> str:
    """What is wrong with the keys of a configuration; empty where nothing is."""
    unknown = sorted(set(conf) - set(fields))
    if not unknown:
        return ""
    said = []
    for key in unknown[:10]:
        near = get_close_matches(key, fields, n=1, cutoff=0.6)
        said.append(f"{key!r} (is {near[0]!r} meant?)" if near else repr(key))
    there = f"It has {', '.join(sorted(fields))}." if fields else "It has none."
    return f"The form of this DAG has no field {', '.join(said)}. {there}"
