"""The section for ZooKeeper: its address, the lease, and how the gateway logs in."""

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr, model_validator

from gateway.config.section import ConfigError, ConfigSection
from ha_core.store.errors import StoreSecurityError
from ha_core.store.security import OPEN, StoreSecurity
from ha_core.store.security import parse as parse_security
from ha_core.tls.contexts import client_context, file_names


class ZooKeeper(ConfigSection):
    hosts: Annotated[str, Field(min_length=1)]
    """`host:port[,host:port…]`."""
    root: Annotated[str, Field(pattern=r"^(/[^/]+)+$")] = "/switchyard"
    session_timeout_ms: Annotated[int, Field(ge=1000, le=120_000)] = 6000
    lease_ms: Annotated[int, Field(ge=100, le=120_000)] = 3000
    """How long after the last confirmation the gateway may still forward produce for a bound identity."""
    tls: dict[str, str] | None = None
    """`{ca_file: …, certificate_file: …, key_file: …, key_password_file: …}`, each of which may be missing."""
    username: str = ""
    """The account (digest) that owns the nodes that the gateway creates in ZooKeeper."""
    password_file: Path | None = None
    _security: StoreSecurity = PrivateAttr(default=OPEN)
    _folder: Path = PrivateAttr(default=Path())

    @property
    def security(self) -> StoreSecurity:
        """How ZooKeeper is reached, with the password from its file."""
        return self._security

    @property
    def for_helpers(self) -> dict[str, Any]:
        """The part of a helper process's order: names of files."""
        files = {} if self._security.tls is None else {"tls": file_names(self._security.tls)}
        account = {"username": self.username, "password_file": str(self._folder / str(self.password_file))}
        return files | (account if self.username else {})

    @model_validator(mode="after")
    def _lease_ends_first(self) -> Self:
        # Operations take a vanished node as proof that its gateway has stopped; only a shorter lease makes it one.
        if self.lease_ms >= self.session_timeout_ms:
            raise ValueError(
                f"lease_ms={self.lease_ms} must be below session_timeout_ms={self.session_timeout_ms}; "
                f"half of it is a good value"
            )
        return self

    def read_files(self, folder: Path, key: str) -> None:
        """:raises ConfigError: a file cannot be used.
        :raises TlsFilesError: a certificate, or its key, cannot be used.
        """
        fields = self.model_dump(include={"tls", "username", "password_file"}, exclude_none=True, exclude_defaults=True)
        self._folder = folder
        try:
            self._security = parse_security(fields, key, folder)
        except StoreSecurityError as error:
            raise ConfigError(str(error)) from None
        if self._security.tls is not None:
            client_context(self._security.tls)
