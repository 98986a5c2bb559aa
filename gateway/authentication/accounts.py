"""Answers the questions of logins: is the password right, which key has the user, whom does a token name?

Neither the time nor the text of an answer shows whether a user exists: one that does not has a phantom key, and a
password is checked against that one, too (`Phantoms`). All wrong passwords take one path, including its queue: at once
where every password is stored in plain text, else beside the loop, also for users with a plain-text password.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock

from ha_core.wire.sasl_scram import HASHES, fits, salt_text
from ha_core.wire.sasl_steps import Bearer, Candidate, KeyOf, LoginVerdict, Plain, Question, Reply, ScramKey


class Phantoms:
    """SCRAM keys of users that do not exist: always equal for a name, at every gateway and after every restart.

    Otherwise a client that asks twice, or two gateways, would see the salt change, and so learn which users exist. The
    keys derive from a secret that all gateways share; knowing it reveals the phantoms. The salt looks like those that
    Kafka's tools and `switchyard users entry` make: a number of 130 bits in base 36, as text.
    """

    def __init__(self, secret: bytes, iterations: int) -> None:
        """:param iterations: those of the users' keys."""
        self._secret, self._iterations = secret, iterations

    def key(self, mechanism: str, user: str) -> ScramKey:
        salt, stored, server = (self._of(what, mechanism, user) for what in ("salt", "stored", "server"))
        size = hashlib.new(HASHES[mechanism]).digest_size
        return ScramKey(salt_text(int.from_bytes(salt, "big")), stored[:size], server[:size], self._iterations)

    def _of(self, what: str, mechanism: str, user: str) -> bytes:
        return hmac.digest(self._secret, f"{what}\0{mechanism}\0{user}".encode(), "sha512")


MAX_REMEMBERED = 10_000
STRONGEST = next(reversed(HASHES))
"""Users of a platform, and those of `switchyard users entry`, have it: so a phantom takes as long as they do."""


@dataclass(frozen=True, slots=True)
class LoginAccount:
    """A user's credentials: a password, or SCRAM keys of one.

    :ivar keys: by mechanism.
    """

    password: str | None = field(default=None, repr=False)
    keys: Mapping[str, ScramKey] = field(default_factory=dict, repr=False)

    @property
    def strongest(self) -> tuple[str, ScramKey] | None:
        """Mechanism and key that a password is checked against."""
        return next(((name, self.keys[name]) for name in reversed(HASHES) if name in self.keys), None)


class KnownAccounts:
    """Call `reply` on the event loop, `find_out` in any thread."""

    def __init__(
        self,
        find: Callable[[str], LoginAccount | None],
        phantoms: Phantoms,
        verify: Callable[[str], LoginVerdict] | None = None,
        in_the_open: bool = False,
        claimed: Callable[[str], str] = lambda _: "",
    ) -> None:
        """
        :param find: the account of a user.
        :param verify: verifies a token; None: tokens are not accepted.
        :param in_the_open: whether every account has a plain-text password.
        :param claimed: the user that a token names, unverified; empty: none.
        """
        self._claimed = claimed
        self._find, self._phantoms, self._verify, self._in_the_open = find, phantoms, verify, in_the_open
        self._right = _Right()

    def reply(self, question: Question) -> Reply | None:
        """The answer if it takes no time; None: `find_out` has to be called."""
        match question:
            case KeyOf(mechanism, user):
                account = self._find(user)
                key = None if account is None else account.keys.get(mechanism)
                known = key is not None
                return Candidate(key or self._phantoms.key(mechanism, user), known, secrets.token_urlsafe(18))
            case Plain():
                return self._at_once(question)
            case Bearer():
                return None

    def named(self, question: Question) -> str:
        """The user that a claim names, unverified; empty: none."""
        return self._claimed(question.token) if isinstance(question, Bearer) else question.user

    def find_out(self, question: Plain | Bearer) -> LoginVerdict:
        """Takes milliseconds, by design, for a password that is stored as a key."""
        if isinstance(question, Bearer):
            return LoginVerdict(None, "tokens are refused") if self._verify is None else self._verify(question.token)
        account = self._find(question.user)
        kept = None if account is None else account.strongest
        mechanism, key = kept or (STRONGEST, self._phantoms.key(STRONGEST, question.user))
        right = fits(mechanism, key, question.password)
        if not (right and kept):
            return _wrong(question.user)
        self._right.remember(question, key)
        return LoginVerdict(question.user)

    def _at_once(self, claim: Plain) -> LoginVerdict | None:
        account = self._find(claim.user)
        if account is not None and account.password is not None:
            given, wanted = (hashlib.sha256(text.encode()).digest() for text in (claim.password, account.password))
            right = hmac.compare_digest(given, wanted)
        else:
            kept = None if account is None else account.strongest
            right = kept is not None and self._right.holds(claim, kept[1])
        if right:
            return LoginVerdict(claim.user)
        return _wrong(claim.user) if self._in_the_open else None


def _wrong(user: str) -> LoginVerdict:
    return LoginVerdict(None, f"user {user!r}")


class _Right:
    """Remembers right passwords, so that returning clients need not wait: a digest of each, with a secret that exists
    in this process's memory only. A digest is void when the user's key changes."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._lock = Lock()
        self._digests: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()

    def remember(self, claim: Plain, key: ScramKey) -> None:
        with self._lock:
            self._digests[claim.user, key.stored_key] = self._digest(claim)
            self._digests.move_to_end((claim.user, key.stored_key))
            if len(self._digests) > MAX_REMEMBERED:
                self._digests.popitem(last=False)

    def holds(self, claim: Plain, key: ScramKey) -> bool:
        with self._lock:
            known = self._digests.get((claim.user, key.stored_key), b"")
        return hmac.compare_digest(known, self._digest(claim))

    def _digest(self, claim: Plain) -> bytes:
        return hmac.digest(self._secret, claim.password.encode(), "sha256")
