"""The effects of a planner's steps: base classes of everything that carries out a plan."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from ha_core.operations.engine.journal import Journal
from ha_core.plan.engine.revision import AnyOperation

AnyStep = TypeVar("AnyStep", bound=str)
Effect = Callable[[], None]


class Effects(ABC, Generic[AnyStep]):
    """Carries out the steps that a planner names."""

    @property
    @abstractmethod
    def effects(self) -> Mapping[AnyStep, Effect]:
        """Each step of the plan, and the method that is its effect."""

    def perform(self, step: AnyStep) -> None:
        self.effects[step]()


class Steps(Effects[AnyStep], Generic[AnyOperation, AnyStep]):
    """The effects of the planner's steps on one operation. Facts that a step reads are kept for later steps here."""

    def __init__(self, journal: Journal[AnyOperation], why: str = "") -> None:
        """:param why: the reason of an undo, for the result."""
        self.journal, self.environment, self.why = journal, journal.environment, why

    def has_way_back(self, step: AnyStep) -> bool:
        """Whether the operation can be taken back when the step fails."""
        raise NotImplementedError

    def undone(self) -> None:
        self.journal.finish("undone", self.why)

    def release(self) -> None:
        self.journal.release()
