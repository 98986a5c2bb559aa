"""The scheduled comparison of clusters that stand in for each other."""

from typing import Any

from ha_core.hooks.airflow_names import AirflowFailException, AirflowSkipException
from ha_core.operators.base import MAX_LISTED, SwitchyardOperator
from ha_core.operators.forms import LinesField, RefusedRequestError, Text


class CheckParityOperator(SwitchyardOperator):
    """Compare each pair of clusters, and keep the result for `status --check`. Fails where some differ.

    :param origin: the cluster that clients use; empty, as `target`: every pair that has mirrors or was compared.
    :param target: the cluster that has to take its place.
    :param ignored: settings that may differ, by names or patterns; empty, as registries: those of the last comparison.
    :param source_registry: URL of the source's schema registry.
    :param target_registry: likewise, of the target's.
    """

    origin: Any = Text("", name="from")
    target: Any = Text("", name="to")
    ignored: Any = LinesField(())
    source_registry: Any = Text("")
    target_registry: Any = Text("")

    def work(self) -> dict[str, Any]:
        from ha_core.operations.parity.comparing import ParityOrder, compare, pairs_of
        from ha_core.present.parity import drift_words, parity_page

        if bool(self.origin) != bool(self.target):
            raise RefusedRequestError("Name both clusters, or neither: then every pair with mirrors is compared.")
        pairs = [(self.origin, self.target)] if self.origin else pairs_of(self.environment)
        if not pairs:
            raise AirflowSkipException("No cluster has mirrors in another, and no pair is named.")
        found = []
        for source, target in pairs:
            registries = (self.source_registry, self.target_registry)
            order = ParityOrder(
                source, target, ignored=tuple(self.ignored) or None, registries=registries if any(registries) else None
            )
            found.append(compare(self.environment, order))
            self.say(parity_page(found[-1]), MAX_LISTED)
        if differing := [one for one in found if one.count]:
            raise AirflowFailException(f"{drift_words(differing[0])}. `switchyard parity list` shows all pairs.")
        self.done("; ".join(map(drift_words, found)))
        return {"pairs": [one.pair for one in found]}
