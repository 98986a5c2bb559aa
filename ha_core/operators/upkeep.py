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
        from ha_core.operations.lifecycle.returned import away_words, check_origins, words
        from ha_core.operators.base import settle_own

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
        for one in result.found[:MAX_LINES]:
            self.log.info("%s", words(one))
        for name, why in sorted(result.away.items()):
            self.log.info("%s", away_words(name, why))
        for text in result.put_off:
            self.log.info("left for the next check: %s", text)
        if result.newly_found and not form["dry_run"]:
            raise AirflowFailException(
                f"{len(result.newly_found)} partitions came back with less than was known of them, or with more than "
                f"has room below the cut: they are marked. {words(result.newly_found[0])}"
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
        for old in result.extents[:MAX_LINES]:
            extent = old.extent
            why = "Aged" if old.aged else "; ".join(block.text for block in old.blocks)
            self.log.info(
                "%s-%s in %s, offsets %s to %s: %s",
                old.topic,
                old.partition,
                extent.cluster,
                extent.start,
                extent.end,
                why,
            )
        for cluster, names in sorted(result.deleted.items()):
            self.log.info("deleted in %s: %s", cluster, ", ".join(names) or "nothing")
        for what, why in sorted(result.kept.items()):
            self.log.info("not deleted: %s: %s", what, why)
        for text in result.put_off:
            self.log.info("left for the next run: %s", text)
        aged = sum(old.aged for old in result.extents)
        words = f"{aged} of {len(result.extents)} old extents are aged"
        self.log.info("%s", words)
        if form["dry_run"]:
            self.would(context, f"{words} and would be dropped")
        else:
            self.done(context, f"{words} and dropped")
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
