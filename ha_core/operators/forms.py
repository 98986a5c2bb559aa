"""The form of a DAG: the fields that several have in common, the clusters that they propose, and keys that they refuse.

A form opens with *Dry run*, and it is on: whoever fills in a form for the first time changes nothing. What has to be
said stands beside it, in the same section; the rest is folded away below. No text has inline code: Airflow draws it so
high that it hides the lines above and below.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from inspect import Parameter, Signature, signature
from typing import Any, ClassVar

from airflow.sdk import Param, Variable, get_parsing_context
from airflow.sdk.definitions.param import DagParam
from airflow.sdk.exceptions import AirflowFailException

WHAT, HOW, SAFETY = "Run Parameters", "How", "Safety"
"""Sections, in this order. The first has the name of Airflow's own, the only one that is unfolded when a form opens."""
FIRST = "dry_run"
"""The first field of every form that changes something."""
_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "none": False, "": False}


class RefusedRequestError(AirflowFailException):  # type: ignore[misc]  # airflow is not typed here
    """Nothing was changed, and repeating it cannot help."""


class FormField(DagParam):  # type: ignore[misc]  # airflow is not typed here
    """The value of a field of the run's form, as an argument of an operator: typed, where a template renders texts.

    :param default: where the DAG has no such field; without it the argument has to be given then.
    :param name: of the field; empty: as the argument is called.
    """

    def __init__(self, default: Any = ..., name: str = "") -> None:  # of no DAG: it is looked up in that of the task
        self.default = default
        self.name = name

    def __set_name__(self, _operator: type, argument: str) -> None:
        self.name = self.name or argument

    def resolve(self, context: Any) -> Any:
        value = context["params"].get(self.name, self.default)
        if value is ...:
            raise RefusedRequestError(
                f"Nothing was changed. There is no {self.name!r}: give it to the task as an argument, or the DAG a "
                "param of this name."
            )
        return value

    def serialize(self) -> str:
        return f"{{{{ params[{self.name!r}] }}}}"

    def read(self, rendered: Any) -> Any:
        """The argument that the operator works with, of what a form or a template has given."""
        return rendered


class Text(FormField):
    """A text without the blanks around it; nothing said: empty."""

    def read(self, rendered: Any) -> str:
        return str(rendered or "").strip()


class LinesField(FormField):
    """Texts, one a line, without empty lines."""

    def read(self, rendered: Any) -> list[str]:
        return [line for line in (str(one).strip() for one in rendered or ()) if line]


class Flag(FormField):
    """A boolean, or what a template makes of one. By default it is off."""

    def __init__(self, default: Any = False) -> None:
        super().__init__(default)

    def read(self, rendered: Any) -> bool:
        """:raises RefusedRequestError: it is neither; a typing mistake must not make a deed of a dry run."""
        text = str(rendered).strip().lower()
        if text not in _TRUTHS:
            raise RefusedRequestError(f"Nothing was changed. {rendered!r} is neither true nor false.")
        return _TRUTHS[text]


class OfForm:
    """Each `FormField` in the body of an operator's class declares an argument and a template field; where a DAG says
    nothing, its value is that field of the run's form."""

    form: ClassVar[Mapping[str, FormField]] = {}
    """Argument → how it is read."""
    template_fields: Sequence[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if fields := {name: value for name, value in vars(cls).items() if isinstance(value, FormField)}:
            cls.template_fields = (*cls.template_fields, *fields)
            cls.form = {**cls.form, **fields}
            cls.__init__ = _with_arguments(cls.__init__, fields)  # type: ignore[method-assign]

    def read_arguments(self) -> None:
        """:raises RefusedRequestError: names the value that cannot be read."""
        for name, field in self.form.items():
            setattr(self, name, field.read(getattr(self, name)))

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments of its own, by name: what it hands to a function of the executor."""
        return {name: getattr(self, name) for name in self.form if name != "dry_run"}


def _with_arguments(init: Callable[..., None], fields: Mapping[str, FormField]) -> Callable[..., None]:
    """`init` with one more argument per field. Airflow reads the signature: for default arguments, and for mapping."""

    def wrapped(self: Any, **arguments: Any) -> None:
        given = {name: arguments.pop(name, field) for name, field in fields.items()}
        init(self, **arguments)
        for name, value in given.items():
            setattr(self, name, value)

    own = [Parameter(name, Parameter.KEYWORD_ONLY, default=field) for name, field in fields.items()]
    self, *others = signature(init).parameters.values()
    wrapped.__signature__ = Signature([self, *own, *others])  # type: ignore[attr-defined]
    return wrapped


def field(title: str, text: str, kind: str | list[str], section: str = WHAT, **more: Any) -> Param:
    """:param more: `default`, without which it has to be said, and JSON schema."""
    return Param(type=kind, title=title, description_md=text, section=section, **more)


def flag(title: str, text: str, section: str = HOW, default: bool = False) -> Param:
    return field(title, text, "boolean", section, default=default)


def decision(title: str, text: str) -> Param:
    return flag(title, text, SAFETY)


def choice(title: str, text: str, words: dict[str, str], section: str = HOW) -> Param:
    return field(title, text, "string", section, default=next(iter(words)), enum=[*words], values_display=words)


def entries(
    title: str, text: str, section: str = WHAT, kind: str | list[str] = "array", min_length: int = 1, **more: Any
) -> Param:
    """Texts, one a line."""
    return field(title, text, kind, section, items={"type": "string", "minLength": min_length}, **more)


def optional_entries(title: str, text: str, section: str = WHAT, min_length: int = 1) -> Param:
    return entries(title, text, section, ["array", "null"], min_length, default=[])


def optional_text(title: str, text: str, section: str = WHAT, **more: Any) -> Param:
    return field(title, text, ["null", "string"], section, default=None, **more)


def dry_run(text: str) -> Param:
    return flag("Dry run", f"{text} Look at its result first, then run it again without.", WHAT, default=True)


def scheduled_dry_run(text: str) -> Param:
    return flag("Dry run", f"{text} Off by default, because scheduled runs take it as it stands.", WHAT)


def cluster(title: str, text: str) -> Param:
    """A cluster's name: those that are registered are proposed, and any other can be typed."""
    names = known_clusters()
    proposed: dict[str, Any] = {"examples": list(names)} if names else {}
    text = f"{text} The command **switchyard clusters list** shows their names."
    return field(title, text, "string", minLength=1, **proposed)


def of_cluster(reason: Param, **more: Param) -> dict[str, Param]:
    which = cluster("Cluster", "The cluster to change.")
    return {FIRST: dry_run("Only show who depends on the cluster."), "cluster": which, "reason": reason, **more}


def topics(text: str) -> Param:
    return entries("Topics", text, minItems=1)


def some_topics() -> Param:
    return optional_entries("Topics", "Names or patterns such as **orders-\\***, one a line. Empty: all.")


def reason() -> Param:
    text = "Why, for the history that is never deleted. A ticket number is a good reason."
    return field("Reason", text, "string", minLength=3)


def usual_reason(text: str) -> Param:
    """One that need not be written: that of scheduled runs, or of what explains itself."""
    return field("Reason", "Why, for the history.", "string", default=text, minLength=3)


def unread(required: bool) -> Param:
    """What readers do that have not read all of a dead cluster's records. There is no default: it may lose records."""
    text = (
        "What readers do that have not read all of the dead cluster's records. *wait*: they get nothing until it is "
        "back, then its records, and nothing is lost. *skip*: they go on at the cut, without them."
    )
    words = {"wait": "wait until the cluster is back", "skip": "skip: go on at the cut"}
    if required:
        text = f"{text} There is no default."
        return field("Unread records", text, "string", enum=[*words], values_display=words)
    text = (
        f"{text} Mirrored topics go on at their copies whatever is said here, without what these lack: the dry run "
        "says how much that is. Only with mode *forced*, where it is required."
    )
    return optional_text("Forced: unread records", text, HOW, enum=[None, *words], values_display=words)


def max_rate_records_s() -> Param:
    """An operator's bound on how fast logs grow, which shortens the hole below a forced cut."""
    text = (
        "You guarantee that no partition of the topics gets more records a second. The hole below the cut (offsets "
        "without a record, at least 3,001,000,000 a partition) shrinks in proportion. Lag alarms, KEDA and Spark's "
        "maxOffsetsPerTrigger count its offsets as records. If the dead cluster acknowledged more than your bound "
        "allows, these records are not served when it is back. A value below ten times the measured rate is refused. "
        "Empty: 10,000,000."
    )
    whole: dict[str, Any] = {"minimum": 1, "maximum": 10_000_000, "default": None}
    return field("Forced: records a second at most", text, ["null", "integer"], HOW, **whole)


def damaged_copies() -> Param:
    """What becomes of topics whose copies cannot be gone on with, where a cluster is dead."""
    text = (
        "Mirrored topics go on at their copies. What becomes of those whose copy is damaged is known only when it is "
        "taken. *refuse*: nothing moves, and they are named. *leave*: they stay with the dead cluster, the others go. "
        "*good-part*: they go on at what is known to be good of their copies; the rest of these is read by nobody."
    )
    words = {
        "refuse": "refuse: nothing moves",
        "leave": "leave them, the others go",
        "good-part": "go on at what is good",
    }
    return choice("Forced: damaged copies", text, words)


def verify(text: str) -> Param:
    """How much of copies is compared with their sources before somebody relies on them."""
    words = {
        "sample": "sample: a tenth, half a minute at most",
        "full": "full: every record, slow",
        "none": "none",
    }
    text = (
        f"{text} *sample*: a tenth of each partition, in ranges all over it, half a minute at most. *full*: "
        "every record, which takes as long as to read both clusters from one machine; for many topics the DAG "
        "**verify_mirror** before does it on Spark."
    )
    return choice("Compare copies", text, words)


def approval() -> Param:
    words = {
        "nobody": "nobody: it goes on by itself",
        "anybody": "anybody, you included",
        "somebody else": "somebody other than whoever triggered the run",
    }
    text = (
        "Wait for a human (*Required Actions*) after the task **plan**. No lock is held while waiting; without an "
        "answer it is rejected after a day."
    )
    return choice("Who approves", text, words, SAFETY)


def max_bytes_s(text: str, **more: Any) -> Param:
    """A number of bytes, or none."""
    return field("Bytes a second", f"{text} A number, or *none*.", "string", pattern="^([0-9]+|none)$", **more)


def drain_timeout_s(text: str) -> Param:
    return field("Drain timeout, seconds", text, "number", SAFETY, default=10, exclusiveMinimum=0, maximum=600)


def lag_bounds() -> dict[str, Param]:
    """How far copies may be behind, of each topic that has one."""
    whole: dict[str, Any] = {"minimum": 0, "section": SAFETY}
    none = {**whole, "default": None}
    where = "in all partitions of a topic together"
    return {
        "warn_lag_records": field(
            "Warn: copy lacks records",
            f"Mirrored topics: more, {where}, is a warning.",
            "integer",
            **whole,
            default=100_000,
        ),
        "warn_lag_ms": field(
            "Warn: copy is behind, ms", "The same, by the age of the oldest record.", "integer", **whole, default=60_000
        ),
        "refuse_lag_records": field(
            "Refuse: copy lacks records",
            f"More, {where}, refuses the switch. Empty: none does.",
            ["null", "integer"],
            **none,
        ),
        "refuse_lag_ms": field(
            "Refuse: copy is behind, ms", "The same, by the age of the oldest record.", ["null", "integer"], **none
        ),
    }


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
    from ha_core.operations.engine.errors import RefusedError

    params = context["dag"].params
    # Every field of ours has a title; what a configuration adds has none.
    fields = {name for name in params if params.get_param(name).schema.get("title")}
    if words := unknown_words(context["dag_run"].conf or {}, fields):
        raise RefusedError(f"Nothing was changed. {words}")


def unknown_words(conf: Collection[str], fields: Collection[str]) -> str:
    """What is wrong with the keys of a configuration; empty where nothing is."""
    unknown = sorted(set(conf) - set(fields))
    if not unknown:
        return ""
    near = ((key, get_close_matches(key, fields, n=1, cutoff=0.6)) for key in unknown[:10])
    said = [f"{key!r} (is {meant[0]!r} meant?)" if meant else repr(key) for key, meant in near]
    there = f"It has {', '.join(sorted(fields))}." if fields else "It has none."
    return f"The form of this DAG has no field {', '.join(said)}. {there}"
