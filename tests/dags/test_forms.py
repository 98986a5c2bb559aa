"""Initial values of forms: nothing that changes something, and the defaults of the command line."""

import json
from typing import Any

import pytest
import typer
from airflow.sdk import Variable

from ha_core.operators import forms
from ha_core.present.web.start import FIELDS
from tests.dags.conftest import read_dags
from tests.dags.names import ASKED, AT_ONCE, DAGS, PLATFORM, UPKEEP

SIDE_BY_SIDE = {
    "switch": {
        "include_other_users": "include_other_users",
        "mode": "mode",
        "unread": "unread",
        "warn_lag_records": "warn_lag_records",
        "warn_lag_ms": "warn_lag_ms",
        "refuse_lag_records": "refuse_lag_records",
        "refuse_lag_ms": "refuse_lag_ms",
        "damaged_copies": "damaged_copies",
        "max_rate_records_s": "max_rate",
        "verify": "verify",
    },
    "migrate_topics": {
        "cut": "cut",
        "groups": "groups",
        "preparation_s": "preparation",
        "finish_after_s": "finish_after",
        "topics_per_batch": "batch_topics",
        "drain_timeout_s": "drain_timeout",
    },
    "migrate_from_fault": {
        "groups": "groups",
        "damaged_copies": "damaged_copies",
        "max_rate_records_s": "max_rate",
        "force": "force",
        "drain_timeout_s": "drain_timeout",
    },
    "give_up_cluster": {"force": "force"},
    "mask_cluster": {"force": "force"},
    "age_migrations": {"delete_origin": "delete_origin", "accept_loss": "accept_loss"},
    "check_origins": {"accept_loss": "accept_loss", "serve_skipped": "serve_skipped"},
}
"""DAG → field of its form → option of the command that does the same."""
COMMANDS = {
    "migrate_topics": ("migrate",),
    "migrate_from_fault": ("migrate-from-fault",),
    "give_up_cluster": ("origins", "give-up"),
    "mask_cluster": ("mask",),
    "age_migrations": ("age",),
    "check_origins": ("origins", "check"),
}


def options(words: tuple[str, ...]) -> dict[str, Any]:
    """Option → default of a command."""
    from ha_core.cli.app import build

    command: Any = typer.main.get_command(build())
    for word in words:
        command = command.commands[word]
    return {one.name: one.default for one in command.params}


def defaults(dag: Any) -> dict[str, Any]:
    return {name: dag.params.get_param(name).value for name in dag.params}


@pytest.mark.parametrize("dag_id", [*ASKED, *PLATFORM])
def test_a_form_opens_with_its_dry_run_and_it_is_on(dagbag: Any, dag_id: str) -> None:
    params = dagbag.dags[dag_id].params

    assert next(iter(params)) == forms.FIRST
    assert params[forms.FIRST] is True


@pytest.mark.parametrize("dag_id", UPKEEP)
def test_scheduled_runs_are_not_dry_runs(dagbag: Any, dag_id: str) -> None:
    params = dagbag.dags[dag_id].params

    assert next(iter(params), forms.FIRST) == forms.FIRST
    assert params.get(forms.FIRST, False) is False


@pytest.mark.parametrize("dag_id", [*ASKED, *AT_ONCE, *PLATFORM])
def test_required_fields_stand_in_the_first_section_of_the_form(dagbag: Any, dag_id: str) -> None:
    params = dagbag.dags[dag_id].params
    fields = [params.get_param(name) for name in params]

    required = [field for field in fields if not field.has_value and "null" not in field.schema["type"]]

    assert {one.schema["section"] for one in required} <= {forms.WHAT}


@pytest.mark.parametrize("dag_id", FIELDS)
def test_a_filled_in_form_of_the_pages_has_each_field_that_its_dag_requires(dagbag: Any, dag_id: str) -> None:
    params = dagbag.dags[dag_id].params
    fields = {name: params.get_param(name) for name in params}

    required = {name for name, one in fields.items() if not one.has_value and "null" not in one.schema["type"]}

    assert required <= {one.name for one in FIELDS[dag_id] if one.needed}
    lists = {name for name, one in fields.items() if "array" in one.schema["type"]}
    assert lists.isdisjoint(one.name for one in FIELDS[dag_id] if not one.several)


@pytest.mark.parametrize("dag_id", SIDE_BY_SIDE)
def test_a_form_and_its_command_have_the_same_defaults(dagbag: Any, dag_id: str) -> None:
    form, command = defaults(dagbag.dags[dag_id]), options(COMMANDS.get(dag_id, (dag_id,)))

    assert {field: form[field] for field in SIDE_BY_SIDE[dag_id]} == {
        field: command[option] for field, option in SIDE_BY_SIDE[dag_id].items()
    }


@pytest.mark.parametrize("dag_id", DAGS)
def test_the_help_of_form_fields_has_no_inline_code(dagbag: Any, dag_id: str) -> None:
    params = dagbag.dags[dag_id].params

    coded = [name for name in params if "`" in str(params.get_param(name).schema.get("description_md"))]

    assert coded == []


def test_a_migration_from_fault_requires_a_choice_for_unread_records(dagbag: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        dagbag.dags["migrate_from_fault"].params.get_param("unread").resolve()


def proposed(dag_id: str = "switch", field: str = "from") -> list[str] | None:
    return read_dags().dags[dag_id].params.get_param(field).schema.get("examples")  # type: ignore[no-any-return]


def test_forms_propose_the_clusters_that_are_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_SWITCHYARD_CLUSTERS", json.dumps(["paris", "oslo"]))

    assert proposed() == ["oslo", "paris"]
    assert proposed("mask_cluster", "cluster") == ["oslo", "paris"]


@pytest.mark.parametrize("written", [None, "no JSON", "17", "[]", '{"east": 1'])
def test_a_form_without_known_clusters_takes_free_text(written: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if written is not None:
        monkeypatch.setenv("AIRFLOW_VAR_SWITCHYARD_CLUSTERS", written)

    assert proposed() is None
    assert "clusters list" in read_dags().dags["switch"].params.get_param("from").schema["description_md"]


def test_a_task_does_not_ask_for_clusters_when_it_reads_its_dag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_SWITCHYARD_CLUSTERS", '["oslo"]')
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "switch")

    assert forms.known_clusters() == ()


def test_the_names_are_written_only_when_they_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setenv("AIRFLOW_VAR_SWITCHYARD_CLUSTERS", '["oslo"]')
    monkeypatch.setattr(Variable, "set", lambda _key, value, **_: written.append(value))

    forms.propose({"oslo": 1})
    forms.propose({"paris": 1, "oslo": 1})

    assert written == ['["oslo", "paris"]']


def test_facts_are_recorded_also_where_the_variable_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError("no variables for this task")

    monkeypatch.setattr(Variable, "set", denied)

    assert not forms.propose({"oslo": 1})
