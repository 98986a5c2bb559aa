"""The files that a side of TLS is made of, as a configuration names them. What is in them is read elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """
    :ivar ca_file: certificates of the authorities that the other side's has to come from, PEM; None: the system's.
    :ivar certificate_file: what this side shows, PEM, with the certificates between it and the authority behind it.
    :ivar key_file: its key, PEM; None: it is in `certificate_file`.
    :ivar key_password_file: the key's password, in its first line; None: the key has none.
    """

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password_file: str | None = None

    def named(self) -> Iterator[str]:
        """The files that are named."""
        for file in (self.ca_file, self.certificate_file, self.key_file, self.key_password_file):
            if file is not None:
                yield file
