"""What is done as time passes: clusters that come back, extents that age, crossings that end, facts that are recorded.

The form of the DAG run is read as it is: rendered by a template its lists would become texts.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from ha_core.operators.base import Context, SwitchyardOperator
from ha_core.operators.dag_run import run_owner
from ha_core.operators.forms import propose

MAX_LINES = 1_000
"""Of the task's log; the result has all."""


class CheckOriginsOperator(SwitchyardOperator):
    """Close the extents of clusters that answer again where they truly end, and say what came back.

    Skipped where no extent waits for its cluster. Fails once for every loss that it finds: somebody has to decide.
    """

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.operations.lifecycle.returned import check_origins
        from ha_core.operators.base import settle_own
        from ha_core.present.lifecycle import return_line, returned_page

        form = context["params"]
        with self.environment(context) as environment:
            settle_own(environment, run_owner(context))
            result = check_origins(
                environment,
                form["topics"] or (),
                accept_loss=form["accept_loss"],
                serve_skipped=form["serve_skipped"],
                dry_run=form["dry_run"],
                reason=form["reason"],
            )
        self.say(returned_page(result))
        if result.newly_found and not form["dry_run"]:
            raise AirflowFailException(
                f"{len(result.newly_found)} partitions came back with less than was known of them, or with more than "
                f"has room below the cut: they are marked. {return_line(result.newly_found[0])}"
            )
        if not result.found and not result.reports:
            raise AirflowSkipException("No extent waits for a cluster that answers.")
        words_of = f"{len(result.found)} partitions of clusters that answer again"
        if form["dry_run"]:
            self.would(context, f"would close the old extents of {words_of} where they truly end")
        else:
            self.done(context, f"the old extents of {words_of} are closed where they truly end")
        return result.to_json()


class AgeMigrationsOperator(SwitchyardOperator):
    """Drop the extents that nobody can read or needs any more, and say what keeps each of the others."""

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.operations.lifecycle.aging import age
        from ha_core.operators.base import settle_own
        from ha_core.present.lifecycle import aged_line, aging_page

        form = context["params"]
        with self.environment(context) as environment:
            settle_own(environment, run_owner(context))
            result = age(
                environment,
                form["topics"] or (),
                delete_origin=form["delete_origin"],
                accept_loss=form["accept_loss"],
                dry_run=form["dry_run"],
                reason=form["reason"],
            )
        self.say(aging_page(result, form["dry_run"]), MAX_LINES)
        if form["dry_run"]:
            self.would(context, f"{aged_line(result)} and would be dropped")
        else:
            self.done(context, f"{aged_line(result)} and dropped")
        return result.to_json()


class SettleMigrationsOperator(SwitchyardOperator):
    """Look at every crossing, whoever started it: settle what has reached its cuts, continue what was interrupted."""

    def work(self, context: Context) -> list[dict[str, Any]]:
        from ha_core.operations.crossing.settling import crossing_operations, wait_for
        from ha_core.operations.migration.listing import migrations

        with self.environment(context) as environment:
            crossing = crossing_operations(environment)
            if not crossing:
                raise AirflowSkipException("No topic crosses over.")
            looks = wait_for(environment, crossing, timeout_s=0.0)
            left = migrations(environment, running_only=True)
        for one in left:
            status = one.status
            self.log.info("%s is %s, %s: %s", status.topic, status.status, one.progress, "; ".join(one.blocks))
        failed = [look for look in looks if look.error or look.operation.state == "failed"]
        if failed:
            raise AirflowFailException(
                " ".join(f"{look.operation.id}: {look.error or look.operation.result}" for look in failed)
            )
        ended = [look for look in looks if look.ended]
        self.done(context, f"{len(ended)} of {len(looks)} operations have ended; {len(left)} topics still cross over")
        return [{"operation": look.operation.id, "state": look.operation.state} for look in looks]


class RecordKnownOperator(SwitchyardOperator):
    """Records in ZooKeeper what each cluster holds now; what was known of one that does not answer stays."""

    def work(self, context: Context) -> list[dict[str, Any]]:
        """The looks: cluster, at, topics, partitions, groups, error."""
        from ha_core.operations.last_seen import record

        with self.environment(context) as environment:
            looks = record(environment)
            names = environment.store.load().clusters
        if propose(names):
            self.log.info("forms propose these clusters from now on: %s", ", ".join(sorted(names)) or "none")
        return [asdict(look) for look in looks]
