"""The names of clusters that forms propose.

A form is made when its DAG file is parsed, every half minute and in every task. ZooKeeper is not asked there: where it
is away, no form and no task could be had, on just the night when they are needed. `record_facts` writes the names into
an Airflow variable whenever they have changed, and the parser reads that from Airflow's own database. Names are only
proposed: a cluster that was added a minute ago can be typed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection

from airflow.sdk import Variable, get_parsing_context

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
