"""Authentication. `tables` explains the notation."""

from ha_core.wire.codes import ApiKey
from ha_core.wire.tables import Schema

SASL_HANDSHAKE = Schema(
    ApiKey.SASL_HANDSHAKE,
    versions=(0, 1),
    request="""
    mechanism string 0+
    """,
    response="""
    error_code int16    0+
    mechanisms []string 0+
    """,
)

SASL_AUTHENTICATE = Schema(
    ApiKey.SASL_AUTHENTICATE,
    versions=(0, 2),
    request="""
    auth_bytes bytes 0+
    """,
    response="""
    error_code          int16  0+
    error_message       string 0+ null
    auth_bytes          bytes  0+
    session_lifetime_ms int64  1+
    """,
)
