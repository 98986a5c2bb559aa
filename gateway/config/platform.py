"""The configuration's section for the platform: its address, the kinds that are followed, and a folder for restarts."""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, field_validator, model_validator

from gateway.config.section import ConfigError, ConfigSection
from ha_core.datacache.state import CacheSettings
from ha_core.model.access import on_loopback
from ha_core.tls.contexts import TlsFilesError, client_context, named_files
from ha_core.wire.tls_files import TlsFiles

Cached = Literal["users", "rules", "settings"]
Followed = Literal[Cached, "quotas"]

MIN_TOKEN, MAX_TOKEN = 32, 512
"""Characters, as the platform accepts them."""
_Seconds = Annotated[float, Field(gt=0, le=86_400)]


class PlatformSection(ConfigSection):
    """Names of files are relative to the configuration's folder."""

    url: Annotated[str, Field(min_length=1, max_length=2048)]
    token_file: Path
    """A gateway's token. The file is read for each question, since the token may be renewed."""
    tls: dict[str, str] | None = None
    """`{ca_file: …, certificate_file: …, key_file: …, key_password_file: …}`. Default: the system's authorities."""
    plain: bool = False
    """Whether token and keys may be sent to another machine without TLS."""
    follows: Annotated[tuple[Followed, ...], Field(min_length=1)] = ("users", "rules", "settings", "quotas")
    """Other kinds come from files, or are off; quotas come from any writer to ZooKeeper."""
    folder: Path | None = None
    """Where the content is kept, for a restart while the platform is away. It has password keys."""
    read_s: _Seconds = 60.0
    """How often changes are read without a notice of one."""
    hold_s: _Seconds = 10.0
    """How long a gateway that cannot read may hold up the others."""
    check_s: _Seconds = 600.0
    """How often the whole content is compared with the platform's."""
    _token_file: Path = PrivateAttr(default=Path())
    _files: TlsFiles | None = PrivateAttr(default=None)
    _folder: Path | None = PrivateAttr(default=None)

    @property
    def files(self) -> TlsFiles | None:
        """None: without TLS."""
        return self._files

    @property
    def kept_in(self) -> Path | None:
        return self._folder

    @property
    def caches(self) -> tuple[Cached, ...]:
        """Kinds with a cache. Rules may name groups of users, and super users need none: they need users, too."""
        # The platform publishes quotas in ZooKeeper: gateways need not read them from it.
        cached: tuple[Cached, ...] = tuple(kind for kind in self.follows if kind != "quotas")
        return tuple(dict.fromkeys(("users", *cached) if "rules" in cached else cached))

    @property
    def settings(self) -> CacheSettings:
        return CacheSettings(every_s=self.read_s, hold_s=self.hold_s, check_s=self.check_s)

    @field_validator("url")
    @classmethod
    def _a_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no URL of a platform; write https://HOST:PORT")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("a URL with an account, a question mark or a # in it; the token belongs into token_file")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _nobody_listens(self) -> Self:
        parts = urlsplit(self.url)
        if parts.scheme == "http":
            if self.tls is not None:
                raise ValueError(f"tls is of no use with {self.url}; write https://, or leave tls out")
            if not (self.plain or on_loopback(parts.hostname or "")):
                raise ValueError(
                    f"{self.url}: the token, and keys of passwords, would be readable on the line; write https://, or "
                    "say plain: true where something else encrypts it"
                )
        return self

    def read_files(self, folder: Path, where: str) -> None:
        """Checks the files.

        :raises ConfigError: one cannot be used.
        """
        self._token_file = folder / self.token_file
        self.token(where)
        if urlsplit(self.url).scheme == "https":
            try:
                self._files = named_files(self.tls or {}, "tls", folder)
                client_context(self._files)
            except TlsFilesError as error:
                raise ConfigError(f"{where}: {error}") from None
        if self.folder is not None:
            self._folder = (folder / self.folder).absolute()
            if self._folder.exists() and not self._folder.is_dir():
                raise ConfigError(f"{where}.folder: {self._folder} is no folder; name one of this gateway's own")

    def token(self, where: str = "platform") -> str:
        """The current content of the token's file.

        :raises ConfigError: it cannot be read.
        """
        key = f"{where}.token_file: {self._token_file}"
        try:
            with self._token_file.open("rb") as file:
                token = file.read(MAX_TOKEN + 2).strip()
        except OSError as error:
            raise ConfigError(f"{key}: {error.strerror}; give the path of a readable file") from None
        if not MIN_TOKEN <= len(token) <= MAX_TOKEN or not token.isascii() or len(token.split()) != 1:
            raise ConfigError(
                f"{key}: no token; write that of a gateway, {MIN_TOKEN} to {MAX_TOKEN} characters in one line"
            )
        return token.decode()
