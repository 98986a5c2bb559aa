"""The configuration of a run against the form of its DAG.

Airflow merges keys that no form has without a word: with `dryrun` for `dry_run` a move would be made that was only to
be looked at. So every task refuses them before it does anything.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Any


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
