"""How far the history was pushed to a receiver."""

from ha_core.model.document import Document


class PushCursor(Document):
    """`/history_pushes/{receiver}`; no revision. Every seal up to `through` was accepted by the receiver."""

    FOLDER = "/history_pushes"
    KEY = "receiver"

    receiver: str
    """Host of the URL, and a part of the URL's hash: the URL itself may hold a secret."""
    through: int = 0
    """Number of a seal."""
    at: str
