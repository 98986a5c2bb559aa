"""The fleet now: the picture of the installation, its clients, and the bytes per second of gateways and clusters."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ha_core.operations.engine.environment import Environment
from ha_core.operations.overview.picture import Picture, take_picture
from ha_core.operations.overview.traffic import ClientTraffic, TrafficRates, rates, traffic


@dataclass(frozen=True, slots=True)
class Fleet:
    """:ivar ages: time in the picture → its age in seconds."""

    picture: Picture
    clients: ClientTraffic | None
    rates: TrafficRates
    ages: Mapping[str, float]


@dataclass
class FleetWatch:
    """Looks again and again, and remembers the counters of the look before: rates are differences."""

    _before: ClientTraffic | None = field(default=None)

    def look(self, environment: Environment) -> Fleet:
        """:raises StoreUnavailableError: ZooKeeper does not answer."""
        picture, clients = take_picture(environment), traffic(environment)
        times = [*(one.started for one in picture.running), *(one.since for one in picture.approvals)]
        fleet = Fleet(picture, clients, rates(self._before, clients), {at: environment.age_s(at) for at in times})
        self._before = clients
        return fleet
