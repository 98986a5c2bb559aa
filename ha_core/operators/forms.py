"""The form of a DAG: common fields, proposed clusters, and refused keys.

A form opens with *Dry run* switched on: an operator's first run changes nothing. Required fields are beside it, in the
same section; the others are folded away below. Texts have no inline code: Airflow draws it so high that it hides the
lines above and below.
"""

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from inspect import Parameter, Signature, signature
from typing import Any, ClassVar

from airflow.sdk import Param, Variable, get_parsing_context
from airflow.sdk.definitions.param import DagParam

from ha_core.hooks.airflow_names import AirflowFailException
from ha_core.operators import four_eyes

WHAT, HOW, SAFETY = "Run Parameters", "How", "Safety"
"""Sections, in this order. The first is named like Airflow's own, the only one that is unfolded when a form opens."""
FIRST = "dry_run"
"""The first field of every form that changes something."""
_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "none": False, "": False}


class RefusedRequestError(AirflowFailException):  # type: ignore[misc]  # airflow is not typed here
    """Repeating the request cannot help.

    :ivar changed: False if nothing was changed, which people read before the reason; None: the reason says it.
    """

    def __init__(self, reason: str, changed: bool | None = False) -> None:
        super().__init__(reason, changed)
        self.reason, self.changed = reason, changed

    def __str__(self) -> str:
        return f"Nothing was changed. {self.reason}" if self.changed is False else self.reason


class FormField(DagParam):  # type: ignore[misc]  # airflow is not typed here
    """The value of a field of the run's form, as an argument of an operator. It is typed; a template renders texts.

    :param default: value if the DAG has no such field; without it the argument is required then.
    :param name: of the field. Default: the argument's name.
    """

    def __init__(self, default: Any = ..., name: str = "") -> None:  # bound to no DAG: the task's DAG has the field
        self.default = default
        self.name = name

    def __set_name__(self, _operator: type, argument: str) -> None:
        self.name = self.name or argument

    def resolve(self, context: Any) -> Any:
        value = context["params"].get(self.name, self.default)
        if value is ...:
            raise RefusedRequestError(
                f"There is no {self.name!r}: give it to the task as an argument, or the DAG a param of this name."
            )
        return value

    def serialize(self) -> str:
        return f"{{{{ params[{self.name!r}] }}}}"

    def read(self, rendered: Any) -> Any:
        """The operator's argument, from the rendered form or template."""
        return rendered


class Text(FormField):
    """A text, stripped; empty if not given."""

    def read(self, rendered: Any) -> str:
        return str(rendered or "").strip()


class DocumentField(FormField):
    """YAML or JSON, with its indentation, which a strip would take from the first line only."""

    def read(self, rendered: Any) -> str:
        return str(rendered or "")


class LinesField(FormField):
    """Texts, one per line, without empty lines."""

    def read(self, rendered: Any) -> list[str]:
        return [line for line in (str(one).strip() for one in rendered or ()) if line]


class Flag(FormField):
    """A boolean, or a template's text for one. Off by default."""

    def __init__(self, default: Any = False) -> None:
        super().__init__(default)

    def read(self, rendered: Any) -> bool:
        """:raises RefusedRequestError: it is neither true nor false. A typo must not turn a dry run into a change."""
        text = str(rendered).strip().lower()
        if text not in _TRUTHS:
            raise RefusedRequestError(f"{rendered!r} is neither true nor false.")
        return _TRUTHS[text]


class FormArguments:
    """Each `FormField` in the body of an operator's class declares an argument and a template field. If a DAG leaves
    the argument out, its value is that field of the run's form."""

    form: ClassVar[Mapping[str, FormField]] = {}
    """Argument → field."""
    template_fields: Sequence[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if fields := {name: value for name, value in vars(cls).items() if isinstance(value, FormField)}:
            cls.template_fields = (*cls.template_fields, *fields)
            cls.form = {**cls.form, **fields}
            cls.__init__ = _with_arguments(cls.__init__, fields)  # type: ignore[method-assign]

    def read_arguments(self) -> None:
        """:raises RefusedRequestError: names the value that is invalid."""
        for name, field in self.form.items():
            setattr(self, name, field.read(getattr(self, name)))

    @property
    def arguments(self) -> dict[str, Any]:
        """The operator's own arguments by name, for a function of the executor."""
        return {name: getattr(self, name) for name in self.form if name != "dry_run"}


def _with_arguments(init: Callable[..., None], fields: Mapping[str, FormField]) -> Callable[..., None]:
    """`init` with one more argument per field. Airflow reads its signature, for default arguments and for mapping."""

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
    """:param more: JSON schema, and `default`; a field without one is required."""
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
    """Texts, one per line."""
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
    """A cluster's name. The form proposes registered clusters, and accepts any other name."""
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
    return optional_entries("Topics", "Names or patterns such as **orders-\\***, one per line. Empty: all.")


def reason() -> Param:
    text = "Kept in the history, which proves itself. A ticket number is a good reason."
    return field("Reason", text, "string", minLength=3)


def usual_reason(text: str) -> Param:
    """A reason with a default, for scheduled runs and self-explanatory changes."""
    return field("Reason", "Kept in the history.", "string", default=text, minLength=3)


def unread(required: bool) -> Param:
    """The choice for readers that have not read all records of a dead cluster. No default: it may lose records."""
    text = (
        "For readers that have not read all records of the dead cluster. *wait*: they get nothing until it is back, "
        "then its records, and nothing is lost. *skip*: they go on at the cut, without them."
    )
    words = {"wait": "wait until the cluster is back", "skip": "skip: go on at the cut"}
    if required:
        text = f"{text} There is no default."
        return field("Unread records", text, "string", enum=[*words], values_display=words)
    text = (
        f"{text} Readers of mirrored topics always go on at the copies, without the records that these lack; the dry "
        "run counts them. Only with mode *forced*, where it is required."
    )
    return optional_text("Forced: unread records", text, HOW, enum=[None, *words], values_display=words)


def settings_left_alone() -> Param:
    """The way out of `setting-refused` and `setting-differs`."""
    return optional_entries(
        "Settings left alone",
        "Topics are created without these settings of the origin, and get the target's defaults: names or patterns, "
        "one a line.",
        HOW,
    )


def max_rate_records_s() -> Param:
    """An operator's bound on the growth of logs, which shortens the hole below a forced cut."""
    text = (
        "You guarantee that no partition of the topics gets more records per second. The hole below the cut (offsets "
        "without a record, at least 3,001,000,000 a partition) shrinks in proportion. Lag alarms, KEDA and Spark's "
        "maxOffsetsPerTrigger count its offsets as records. If the dead cluster acknowledged more than your bound "
        "allows, these records are not served when it is back. A value below ten times the measured rate is refused. "
        "Empty: 10,000,000."
    )
    whole: dict[str, Any] = {"minimum": 1, "maximum": 10_000_000, "default": None}
    return field("Forced: maximum records per second", text, ["null", "integer"], HOW, **whole)


def damaged_copies() -> Param:
    """The choice for topics with damaged copies, if a cluster is dead."""
    text = (
        "Mirrored topics go on at their copies. Whether a copy is damaged is only known after its takeover. *refuse*: "
        "nothing moves, and these topics are named. *leave*: they stay with the dead cluster, the others move. "
        "*good-part*: they go on at the part of their copies that is known to be good; the rest is not served."
    )
    words = {
        "refuse": "refuse: nothing moves",
        "leave": "leave them, the others move",
        "good-part": "go on at the good part",
    }
    return choice("Forced: damaged copies", text, words)


def verify(text: str) -> Param:
    """The share of copies that is compared with their sources before a switch to them."""
    words = {
        "sample": "sample: a tenth, at most 30 s",
        "full": "full: every record, slow",
        "none": "none",
    }
    text = (
        f"{text} *sample*: a tenth of each partition, in ranges spread over it, at most 30 s. *full*: every record, "
        "which takes as long as reading both clusters from one machine; for many topics, run the DAG "
        "**verify_mirror** first, which compares on Spark."
    )
    return choice("Compare copies", text, words)


def of_switch(more: str = "") -> dict[str, Param]:
    """How a switch deals with a dead origin, and with copies. `more`: a further text about the mode."""
    text = f"*Planned* loses nothing. *Forced* gives up records that only the dead cluster has{more}."
    modes = {"planned": "planned: both clusters live", "forced": "forced: the origin is dead"}
    return {
        "mode": choice("Mode", text, modes),
        "unread": unread(required=False),
        "damaged_copies": damaged_copies(),
        "max_rate_records_s": max_rate_records_s(),
        "verify": verify("Planned: mirrored topics are compared with their copies before anything is changed."),
        "settings_left_alone": settings_left_alone(),
    }


def per_batch(title: str, text: str) -> Param:
    return field(title, text, "integer", SAFETY, default=200, minimum=1, maximum=1_000)


def approval() -> Param:
    words = {
        "nobody": "nobody: the run goes on at once",
        "anybody": "anybody, you included",
        "somebody else": "a user other than the one who triggered the run",
    }
    text = (
        "Wait for a human (*Required Actions*) after the task **plan**. No lock is held while waiting; without an "
        "answer the run is rejected after a day."
    )
    if four_eyes.required():
        words = {"somebody else": words["somebody else"]}
        text = f"{text} {four_eyes.SETTING}."
    return choice("Who approves", text, words, SAFETY)


def max_bytes_s(text: str, **more: Any) -> Param:
    """Bytes per second, or none."""
    return field("Bytes per second", f"{text} A number, or *none*.", "string", pattern="^([0-9]+|none)$", **more)


def drain_timeout_s(text: str) -> Param:
    return field("Drain timeout, seconds", text, "number", SAFETY, default=10, exclusiveMinimum=0, maximum=600)


def lag_bounds() -> dict[str, Param]:
    """Bounds of the lag of copies, per topic."""
    whole: dict[str, Any] = {"minimum": 0, "section": SAFETY}
    none = {**whole, "default": None}
    where = "in all partitions of a topic together"
    return {
        "warn_lag_records": field(
            "Warn: copy lacks records",
            f"Mirrored topics: more missing records, {where}, is a warning.",
            "integer",
            **whole,
            default=100_000,
        ),
        "warn_lag_ms": field(
            "Warn: copy lags, ms", "By the age of the oldest missing record.", "integer", **whole, default=60_000
        ),
        "refuse_lag_records": field(
            "Refuse: copy lacks records",
            f"More missing records, {where}, refuses the switch. Empty: no limit.",
            ["null", "integer"],
            **none,
        ),
        "refuse_lag_ms": field(
            "Refuse: copy lags, ms", "By the age of the oldest missing record.", ["null", "integer"], **none
        ),
    }


VARIABLE = "switchyard_clusters"
"""Variable with a JSON list of names."""
MAX_PROPOSED = 200
_log = logging.getLogger("switchyard.forms")


def known_clusters() -> tuple[str, ...]:
    """Names as last written; empty if none were. Never raises: a form works without them.

    A task does not show its form, so it does not read them: each would wait for the API server.
    """
    if get_parsing_context().dag_id is not None:
        return ()
    try:
        names = json.loads(Variable.get(VARIABLE, default=None) or "[]")
        return tuple(sorted({name for name in names if isinstance(name, str) and name}))[:MAX_PROPOSED]
    except Exception as error:  # a broken variable must not keep a DAG from being triggered
        _log.warning("the variable %s cannot be used, so forms propose no clusters: %s", VARIABLE, error)
        return ()


def propose(names: Collection[str]) -> bool:
    """Write the names for the next forms. True: they have changed. Never raises: forms work without them."""
    wanted = json.dumps(sorted(names)[:MAX_PROPOSED])
    try:
        if Variable.get(VARIABLE, default=None) == wanted:
            return False
        Variable.set(VARIABLE, wanted, description="Clusters that Switchyard's forms propose (record_facts)")
    except Exception as error:  # the recorded facts matter more than the forms' proposals
        _log.warning("the variable %s cannot be written, so forms keep their proposals: %s", VARIABLE, error)
        return False
    return True


def refuse_unknown_keys(context: Any) -> None:
    """:raises RefusedError: the run's configuration has a key that is no field of the form; names the nearest one."""
    from ha_core.operations.engine.errors import unchanged

    params = context["dag"].params
    # Every field of Switchyard's forms has a title; keys that only the configuration has, have none.
    fields = {name for name in params if params.get_param(name).schema.get("title")}
    if words := unknown_words(context["dag_run"].conf or {}, fields):
        raise unchanged(words)


def unknown_words(conf: Collection[str], fields: Collection[str]) -> str:
    """The problem with the keys of a configuration; empty if there is none."""
    unknown = sorted(set(conf) - set(fields))
    if not unknown:
        return ""
    near = ((key, get_close_matches(key, fields, n=1, cutoff=0.6)) for key in unknown[:10])
    named = [f"{key!r} (is {meant[0]!r} meant?)" if meant else repr(key) for key, meant in near]
    there = f"It has {', '.join(sorted(fields))}." if fields else "It has none."
    return f"The form of this DAG has no field {', '.join(named)}. {there}"
