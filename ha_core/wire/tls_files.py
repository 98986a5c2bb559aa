"""One side of TLS: files, as named in a configuration and read elsewhere, or certificates and a key in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field


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


@dataclass(frozen=True, slots=True)
class TlsPem:
    """A client's side in memory, from stores of another form; texts are PEM.

    :ivar authorities: certificates of the accepted authorities of the other side; None: the system's.
    :ivar certificates: this side's certificate, followed by intermediate certificates; empty: it has none.
    :ivar key: its key, without a password.
    :ivar check_names: whether the other side's certificate has to have its name.
    """

    authorities: str | None = None
    certificates: str = ""
    key: str = field(default="", repr=False)
    check_names: bool = True


Tls = TlsFiles | TlsPem
