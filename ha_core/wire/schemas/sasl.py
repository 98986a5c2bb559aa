"""Authentication. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
SASL_HANDSHAKE 0-1
  request
    mechanism string
  response
    error_code int16
    mechanisms []string

SASL_AUTHENTICATE 0-2
  request
    auth_bytes bytes
  response
    error_code          int16
    error_message       string null
    auth_bytes          bytes
    session_lifetime_ms int64  1+
""")
