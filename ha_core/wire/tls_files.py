"""The files of one side of TLS, as named in a configuration. They are read elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """
    :ivar ca_file: certificates of the accepted authorities of the other side, PEM; None: the system's.
    :ivar certificate_file: this side's certificate, PEM, followed by intermediate certificates.
    :ivar key_file: its key, PEM; None: in `certificate_file`.
    :ivar key_password_file: file with the key's password in its first line; None: the key has none.
    """

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password_file: str | None = None

    def named(self) -> Iterator[str]:
        """All files that are given."""
        for file in (self.ca_file, self.certificate_file, self.key_file, self.key_password_file):
            if file is not None:
                yield file
