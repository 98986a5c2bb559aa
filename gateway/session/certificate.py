"""Maps a client's certificate to its user.

The subject is written as Kafka's brokers write it (RFC 2253), and rules are those of `ssl.principal.mapping.rules`: a
rule applies if its pattern matches the whole subject, and the first such rule decides.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ha_core.model.linear_pattern import LinearPattern, PatternError

MAX_SUBJECT = 2048
"""Characters."""
MAX_USER = 255
_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_SPECIAL = re.compile(r'[,+"\\<>;]')
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_GROUP = re.compile(r"\$(\d)")
_CASE: dict[str, Callable[[str], str]] = {"": str, "L": str.lower, "U": str.upper}

Subject = Sequence[Sequence[tuple[str, str]]]
"""The subject in the form of Python's ssl: sets of attributes, the widest first, each attribute with its long name."""


def distinguished_name(subject: Subject) -> str:
    """`CN=orders,OU=apps,O=Example`: the narrowest first. Values are escaped, so none can pose as an attribute."""
    return ",".join(
        "+".join(f"{_SHORT.get(kind, kind)}={_escaped(text)}" for kind, text in one) for one in subject[::-1]
    )


def _escaped(text: str) -> str:
    text = _SPECIAL.sub(r"\\\g<0>", text).replace("\0", "\\00")
    if text.startswith((" ", "#")):
        text = f"\\{text}"
    if text.endswith(" ") and text != "\\ ":
        text = f"{text[:-1]}\\ "
    return text


@dataclass(frozen=True, slots=True)
class CertificateRule:
    """:ivar pattern: matches the whole subject. None: any subject, which is the user as it is (`DEFAULT`)."""

    pattern: LinearPattern | None
    replacement: str = ""
    case: str = ""

    def user(self, name: str) -> str | None:
        """The user; None if the rule does not match this subject."""
        if self.pattern is None:
            return name
        found = self.pattern.groups_of(name)
        if found is None:
            return None
        text = _GROUP.sub(lambda group: found[int(group[1])], self.replacement)
        return _CASE[self.case](text)


def parse_rule(text: str) -> CertificateRule:
    """Parses `DEFAULT`, or `RULE:pattern/replacement/` with an optional `L` or `U` at the end for lower or upper case.

    :raises ValueError: the text is no rule; the error says why.
    """
    if text == "DEFAULT":
        return CertificateRule(None)
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{text!r} is no rule: write DEFAULT, or RULE:pattern/replacement/ with L or U at its end; a slash in a "
            r"pattern is written \/"
        )
    source, replacement, case = found[1].replace(r"\/", "/"), found[2].replace(r"\/", "/"), found[3]
    try:
        pattern = LinearPattern(source)
    except PatternError as error:
        why = "cannot be matched in linear time (RE2)" if error.backtracks else "cannot be read"
        raise ValueError(f"{text!r}: the pattern {why}: {error}") from None
    for group in _GROUP.findall(replacement):
        if int(group) > pattern.groups:
            raise ValueError(f"{text!r}: ${group} names a group, and the pattern has {pattern.groups}")
    return CertificateRule(pattern, replacement, case)


def user_of(rules: Iterable[CertificateRule], certificate: dict[str, Any] | None) -> str | None:
    """The certificate's user; None if there is no certificate or no rule gives a user.

    :param certificate: verified, in the form of Python's ssl.
    """
    name = distinguished_name(certificate.get("subject", ())) if certificate else ""
    if not name or len(name) > MAX_SUBJECT:
        return None
    for rule in rules:
        user = rule.user(name)
        if user is not None:
            return user if 0 < len(user) <= MAX_USER and "\0" not in user else None
    return None
