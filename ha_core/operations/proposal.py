"""What every proposal is: a document that is judged, shown to people, and carried from task to task."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from ha_core.operations.errors import RefusedError
from ha_core.plan.verdict import Verdict, refused


class BaseProposal(BaseModel):
    """Something that would be done on the state at `revision`, and what speaks against it."""

    model_config = ConfigDict(frozen=True)

    revision: int
    verdicts: tuple[Verdict, ...] = ()

    @property
    def refused(self) -> bool:
        return refused(self.verdicts)

    @property
    def nothing_to_do(self) -> bool:
        """Whether the only thing wrong with it is that everything is where it should be."""
        return [verdict.code for verdict in self.verdicts if verdict.level == "error"] == ["nothing-to-move"]

    def require_sound(self) -> None:
        """:raises RefusedError: a verdict is an error; the text has all of them with their remedies."""
        errors = [verdict for verdict in self.verdicts if verdict.level == "error"]
        if errors:
            text = " ".join(f"{v.about}: {v.text} {v.remedy}".strip() for v in errors)
            raise RefusedError(f"Nothing was changed. {text}", self.verdicts)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = self.model_dump(mode="json")
        document["verdicts"] = [asdict(verdict) for verdict in self.verdicts]
        return document

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        return cls.model_validate(document)
