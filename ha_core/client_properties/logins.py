"""Reads the account of a Java client: mechanism, login module, and for OAUTHBEARER the token's file."""

from urllib.parse import unquote, urlsplit

from ha_core.client_properties.jaas import LoginModule
from ha_core.wire.sasl import MECHANISMS, PLAIN, SecurityProfile
from ha_core.wire.sasl_oauth import OAUTHBEARER
from ha_core.wire.sasl_scram import HASHES

_CLASSES = "org.apache.kafka.common.security."
_SCRAM_MODULE = f"{_CLASSES}scram.ScramLoginModule"
_MODULES = {
    PLAIN: f"{_CLASSES}plain.PlainLoginModule",
    **dict.fromkeys(HASHES, _SCRAM_MODULE),
    OAUTHBEARER: f"{_CLASSES}oauthbearer.OAuthBearerLoginModule",
}
_JAVAS_DEFAULT = "GSSAPI"
_URL = "sasl.oauthbearer.token.endpoint.url"
_FILE = f"let a process write the token into a file, and set {_URL}=file:///PATH"


class LoginError(ValueError):
    """The login is not possible here. The text names the key and the way out, and no secret."""


def account(mechanism: str, module: LoginModule | None, token_url: str, declared_in: str) -> SecurityProfile:
    """
    :param mechanism: SASL mechanism; empty: Java's default.
    :param module: login module of `sasl.jaas.config`; None: not set.
    :raises LoginError: the login is not possible.
    """
    if mechanism not in _MODULES:
        named = f"={mechanism}" if mechanism else f" is not set, which means {_JAVAS_DEFAULT}, and that"
        raise LoginError(
            f"sasl.mechanism{named} cannot be used; create an account for one of {', '.join(MECHANISMS)}, on a "
            "listener that has it"
        )
    wanted = _MODULES[mechanism]
    if module is None:
        raise LoginError(
            f"sasl.jaas.config is not set, and a JVM's login file is not read here; set it as in: {wanted} required …;"
        )
    if module.name != wanted:
        raise LoginError(
            f"sasl.jaas.config has the login module {module.name}; for sasl.mechanism={mechanism} it is {wanted}"
        )
    if mechanism == OAUTHBEARER:
        return _by_token(module, token_url, declared_in)
    if module.options.get("tokenauth", "").lower() == "true":
        raise LoginError(
            "sasl.jaas.config logs in by a delegation token (tokenauth), which is not possible here; give the user "
            "name and password of an account"
        )
    for option in ("username", "password"):
        value = module.options.get(option, "")
        if not value or "\0" in value:
            raise LoginError(f'sasl.jaas.config has no {option}; write it as in: {wanted} required {option}="…" …;')
    return SecurityProfile(mechanism, module.options["username"], module.options["password"], declared_in=declared_in)


def _by_token(module: LoginModule, token_url: str, declared_in: str) -> SecurityProfile:
    if not token_url:
        raise LoginError(f"{_URL} is not set, so there is no token; {_FILE}")
    try:
        url = urlsplit(token_url)
    except ValueError:
        raise LoginError(f"{_URL} is not a URL; {_FILE}") from None
    if url.scheme.lower() != "file":
        raise LoginError(f"{_URL} is not a file: tokens are not fetched from a service here; {_FILE}")
    path = unquote(url.path)
    if url.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        raise LoginError(f"{_URL} names no file of this machine; {_FILE}")
    if extensions := sorted(option for option in module.options if option.startswith("extension_")):
        raise LoginError(
            f"sasl.jaas.config has {extensions[0]}, but SASL extensions are not sent here; remove it, and use an "
            "account that needs none"
        )
    return SecurityProfile(OAUTHBEARER, token_file=path, declared_in=declared_in)
