"""One object per request that the session handles itself."""

from gateway.session.request import Request
from gateway.session.state import ConnectionState


class RequestHandler:
    """Handles requests of one or several APIs; the tables in `requests` name them."""

    __slots__ = ("context", "request", "session")

    def __init__(self, session: ConnectionState, request: Request) -> None:
        self.session = session
        self.context = session.context
        self.request = request

    def handle(self) -> None:
        """Forwards the request, answers it, or has it answered.

        :raises NeedsPreparingError: it is too long for the event loop.
        """
        raise NotImplementedError
