"""The section for logins: mechanisms, users, bearer tokens, and the files of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from gateway.authentication.accounts import LoginAccount, Phantoms
from gateway.authentication.jwks import Jwks, JwksError, demand_allowed
from gateway.authentication.users import UsersError, accounts, with_keys
from gateway.config.section import ConfigError, ConfigSection, document_of, secret_of
from ha_core.platform.scram import ITERATIONS
from ha_core.wire.sasl_oauth import OAUTHBEARER
from ha_core.wire.sasl_scram import HASHES, MAX_ITERATIONS, MIN_ITERATIONS

MechanismName = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class OAuth(ConfigSection):
    """Verification of bearer tokens."""

    issuer: Annotated[str, Field(min_length=1, max_length=2048)]
    """As tokens name it (`iss`)."""
    audience: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=100)]
    """Tokens are for one of these (`aud`)."""
    jwks: Annotated[str, Field(min_length=1, max_length=2048)]
    """The issuer's public keys: a file, or a URL that SWITCHYARD_ALLOWED_URLS allows."""
    algorithms: Annotated[list[Algorithm], Field(min_length=1)] = Field(default=["RS256", "ES256"])
    required_claims: Annotated[list[str], Field(max_length=100)] = Field(default_factory=list)
    user_claim: Annotated[str, Field(min_length=1, max_length=255)] = "sub"
    clock_skew_s: Annotated[float, Field(ge=0, le=300)] = 30.0
    refresh_s: Annotated[int, Field(ge=10, le=86_400)] = 300
    """How often the keys are read again."""


class AuthenticationSection(ConfigSection):
    """How clients log in."""

    anonymous: bool = False
    """Whether clients may skip authentication; their user is then `anonymous`."""
    mechanisms: Annotated[list[MechanismName], Field(min_length=1)] = Field(default=["PLAIN"])
    users_file: Path | None = None
    """YAML `{user: password}` or `{user: {mechanism: key}}`; relative to the configuration file."""
    phantom_secret_file: Path | None = None
    """A secret that all gateways share; the SCRAM keys of users that do not exist derive from it."""
    scram_iterations: Annotated[int, Field(ge=MIN_ITERATIONS, le=MAX_ITERATIONS)] | None = None
    """Iterations of those keys: as many as the users' keys have. Default: the platform's, where its users are followed,
    else the least that Kafka accepts."""
    oauth: OAuth | None = None
    session_ms: Annotated[int, Field(ge=0, le=31_536_000_000)] = 0
    """Longest time that a login is valid; 0: no limit, except that of a token."""
    failed_delay_ms: Annotated[int, Field(ge=0, le=10_000)] = 100
    """Delay before a failed login is answered and its connection closed."""
    failures_per_address: Annotated[int, Field(ge=1, le=100_000)] = 20
    """Failures of one address that are tolerated, plus one each second; after that its logins are refused unchecked."""
    plain_without_tls: bool = False
    """Whether passwords may be sent in plain text, over a listener that only this machine reaches."""
    _users: Mapping[str, LoginAccount] = PrivateAttr(default_factory=dict)
    _phantom_secret: bytes | None = PrivateAttr(default=None)
    _iterations: int = PrivateAttr(default=MIN_ITERATIONS)
    _jwks: str | Path = PrivateAttr(default="")

    @property
    def users(self) -> Mapping[str, LoginAccount]:
        """User → account, from `users_file`."""
        return self._users

    @property
    def iterations(self) -> int:
        """`scram_iterations`, or their default."""
        return self.scram_iterations or self._iterations

    @property
    def phantom_secret(self) -> bytes | None:
        """The content of `phantom_secret_file`."""
        return self._phantom_secret

    @property
    def jwks(self) -> str | Path:
        """A URL, or a file's full path."""
        return self._jwks

    @model_validator(mode="after")
    def _mechanisms_have_what_they_need(self) -> Self:
        if (OAUTHBEARER in self.mechanisms) != (self.oauth is not None):
            raise ValueError(f"{OAUTHBEARER} among mechanisms needs the section oauth, and it that: give both, or none")
        if self.users_file is not None and self.mechanisms == [OAUTHBEARER]:
            raise ValueError(f"users_file is of no use where {OAUTHBEARER} is the only mechanism; leave one out")
        if any(name in HASHES for name in self.mechanisms) and self.phantom_secret_file is None:
            raise ValueError(
                "SCRAM needs phantom_secret_file: a file with 16 random characters or more, the same at all gateways, "
                "or clients learn which users exist. Make it with `openssl rand -base64 32`"
            )
        return self

    def read_files(self, folder: Path, key: str, on_platform: bool) -> None:
        """
        :param on_platform: whether the users are the platform's.
        :raises ConfigError: a file cannot be used.
        """
        if self.users_file is not None:
            self._users = _users(folder / self.users_file, f"{key}.users_file")
        self._iterations = ITERATIONS if on_platform else MIN_ITERATIONS
        if self.phantom_secret_file is not None:
            self._phantom_secret = secret_of(folder / self.phantom_secret_file, f"{key}.phantom_secret_file")
            phantoms = Phantoms(self._phantom_secret, self.iterations)
            self._users = with_keys(self._users, [name for name in self.mechanisms if name in HASHES], phantoms)
        if self.oauth is not None:
            self._jwks = _jwks(self.oauth, folder, f"{key}.oauth.jwks")


def _users(file: Path, key: str) -> dict[str, LoginAccount]:
    try:
        return accounts(document_of(file, key))
    except UsersError as error:
        raise ConfigError(f"{file}: {error}") from None


def _jwks(oauth: OAuth, folder: Path, key: str) -> str | Path:
    """The URL, or the file's full path; a file is read once, to check it."""
    try:
        if "://" in oauth.jwks:
            demand_allowed(oauth.jwks)
            return oauth.jwks
        Jwks(file := (folder / oauth.jwks).absolute(), oauth.refresh_s).read()
    except JwksError as error:
        raise ConfigError(f"{key}: {error}") from None
    return file
