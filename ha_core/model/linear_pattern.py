"""Regular expressions that operators write, matched against names that others choose.

RE2 takes time linear in the length of the name. Engines that backtrack, as Python's and Java's, take 2^n steps for
`(a+)+$` and a name of n letters: one topic or one certificate with such a name would hold its process for ever. Kafka's
brokers match patterns of consumers by RE2, too (KIP-848).
"""

import re
import warnings
from dataclasses import dataclass, field
from typing import Any

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # else RE2 itself writes them to stderr
_OPTIONS.max_mem = 64 << 20  # a list of 50,000 topics as one expression needs more than the default of 8 MB


class PatternError(ValueError):
    """:ivar backtracks: whether it is a regular expression, but none that can be matched in linear time."""

    def __init__(self, reason: str, backtracks: bool = False) -> None:
        self.backtracks = backtracks
        super().__init__(reason)


@dataclass(frozen=True)
class LinearPattern:
    """A pattern that Java reads alike. Two are equal if their texts are."""

    text: str
    _compiled: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """:raises PatternError: the text cannot be used."""
        try:
            # Java's intersections and nested sets compile here, with a warning, and in RE2 without: both mean
            # something else by them.
            with warnings.catch_warnings(action="error", category=FutureWarning):
                re.compile(self.text)
        except (re.error, FutureWarning, OverflowError) as error:
            raise PatternError(str(error)) from None
        except RecursionError:
            raise PatternError("its groups are nested too deeply") from None
        try:
            object.__setattr__(self, "_compiled", re2.compile(self.text, _OPTIONS))
        except re2.error as error:
            (reason,) = error.args
            raise PatternError(reason.decode(errors="replace"), backtracks=True) from None
        except UnicodeEncodeError:
            raise PatternError("it has half of a character (a lone surrogate)") from None

    def __reduce__(self) -> tuple[type["LinearPattern"], tuple[str]]:
        return LinearPattern, (self.text,)  # Spark sends flows to its executors; what RE2 compiled stays here

    @property
    def groups(self) -> int:
        return int(self._compiled.groups)

    def matches(self, name: str) -> bool:
        """Whether it matches the whole name."""
        return self._compiled.fullmatch(_bytes(name)) is not None

    def begins(self, name: str) -> bool:
        """Whether it matches a beginning of the name."""
        return self._compiled.match(_bytes(name)) is not None

    def groups_of(self, name: str) -> tuple[str, ...] | None:
        """The text of the whole name and of each group, "" where a group has none; None: it does not match the whole
        name."""
        found = self._compiled.fullmatch(_bytes(name))
        if found is None:
            return None
        return tuple((found[number] or b"").decode(errors="replace") for number in range(self.groups + 1))


def _bytes(name: str) -> bytes:
    return name.encode(errors="surrogatepass")
