"""Authentication. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
SASL_HANDSHAKE 0-1
  request
    mechanism string 0+
  response
    error_code int16    0+
    mechanisms []string 0+

SASL_AUTHENTICATE 0-2
  request
    auth_bytes bytes 0+
  response
    error_code          int16  0+
    error_message       string 0+ null
    auth_bytes          bytes  0+
    session_lifetime_ms int64  1+
""")
