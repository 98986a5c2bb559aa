"""Scheduled upkeep: clusters come back, extents age, crossings end, facts are recorded."""

from dataclasses import asdict
from typing import Any

from ha_core.hooks.airflow_names import AirflowFailException, AirflowSkipException
from ha_core.operators.base import MAX_LISTED, SwitchyardOperator
from ha_core.operators.forms import Flag, LinesField, Text, propose
from ha_core.plan.facts.verdict import amount


class _ExtentsOperator(SwitchyardOperator):
    """:param topics: names or patterns; empty: all.
    :param accept_loss: accept records that were lost; name the topics.
    """

    topics: Any = LinesField(())
    accept_loss: Any = Flag()
    reason: Any = Text()


class CheckOriginsOperator(_ExtentsOperator):
    """Close the extents of clusters that answer again at their real ends, and report what came back.

    Skipped if no extent waits for its cluster. Fails once for every loss that it finds: an operator has to decide.

    :param serve_skipped: serve records that a forced move let readers skip; name the topics.
    """

    serve_skipped: Any = Flag()

    def work(self) -> dict[str, Any]:
        from ha_core.operations.absence.returned import check_origins
        from ha_core.present.lifecycle import return_line, returned_page

        self.finish_own()
        result = check_origins(self.environment, dry_run=self.dry_run, **self.arguments)
        self.say(returned_page(result))
        if result.newly_found and not self.dry_run:
            raise AirflowFailException(
                f"{amount(len(result.newly_found), 'partition')} came back with less than was known of them, or "
                "with more than "
                f"has room below the cut: they are marked. {return_line(result.newly_found[0])}"
            )
        if not result.returns and not result.reports:
            raise AirflowSkipException("No extent waits for a cluster that answers.")
        found = f"{amount(len(result.returns), 'partition')} of clusters that answer again"
        if self.dry_run:
            self.would(f"would close the old extents of {found} where they truly end")
        else:
            self.done(f"the old extents of {found} are closed where they truly end")
        return result.to_json()


class AgeMigrationsOperator(_ExtentsOperator):
    """Drop extents that cannot be read or are not needed any more, and report what keeps each of the others.

    :param delete_origin: delete empty topics in old clusters that no map names.
    """

    delete_origin: Any = Flag()

    def work(self) -> dict[str, Any]:
        from ha_core.operations.migration.aging import age
        from ha_core.present.lifecycle import aged_line, aging_page

        self.finish_own()
        result = age(self.environment, dry_run=self.dry_run, **self.arguments)
        self.say(aging_page(result, self.dry_run), MAX_LISTED)
        if self.dry_run:
            self.would(f"{aged_line(result)} and would be dropped")
        else:
            self.done(f"{aged_line(result)} and dropped")
        return result.to_json()


class SettleMigrationsOperator(SwitchyardOperator):
    """Check all crossings, of other runs too: settle those that have reached their cuts, continue interrupted ones."""

    def work(self) -> list[dict[str, Any]]:
        from ha_core.operations.migration.listing import migrations
        from ha_core.operations.running.settling import crossing_operations, wait_for
        from ha_core.present.state import migrations_page

        if not (crossing := crossing_operations(self.environment)):
            raise AirflowSkipException("No topic is crossing.")
        looks = wait_for(self.environment, crossing, timeout_s=0.0)
        left = migrations(self.environment, running_only=True)
        self.say(migrations_page(left))
        if failed := [look for look in looks if look.error or look.operation.state == "failed"]:
            whys = (f"{look.operation.id}: {look.error or look.operation.result}" for look in failed)
            raise AirflowFailException(" ".join(whys))
        ended = sum(look.ended for look in looks)
        topics = amount(len(left), "topic", "still crosses", "still cross")
        operations = amount(len(looks), "operation", "has", "have")
        self.done(f"{ended} of {operations} ended; {topics} over")
        return [{"operation": look.operation.id, "state": look.operation.state} for look in looks]


class RecordKnownOperator(SwitchyardOperator):
    """Record in ZooKeeper the contents of each cluster. Facts of clusters that do not answer stay."""

    def work(self) -> list[dict[str, Any]]:
        """Results per cluster: cluster, at, topics, partitions, groups, error."""
        from ha_core.operations.clusters.last_seen import record

        looks = record(self.environment)
        names = self.environment.store.load().clusters
        if propose(names):
            self.log.info("forms propose these clusters from now on: %s", ", ".join(sorted(names)) or "none")
        return [asdict(look) for look in looks]
