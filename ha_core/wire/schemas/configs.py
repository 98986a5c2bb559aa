"""Configuration of topics and brokers. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
DESCRIBE_CONFIGS 1-4
  request
    resources             []       1+
      resource_type       int8     1+
      resource_name       string   1+
      configuration_keys  []string 1+ null
    include_synonyms      bool     1+
    include_documentation bool     3+
  response
    throttle_time_ms  int32  1+
    results           []     1+
      error_code      int16  1+
      error_message   string 1+ null
      resource_type   int8   1+
      resource_name   string 1+
      configs         []     1+
        name          string 1+
        value         string 1+ null
        read_only     bool   1+
        config_source int8   1+ = -1
        is_sensitive  bool   1+
        synonyms      []     1+
          name        string 1+
          value       string 1+ null
          source      int8   1+
        config_type   int8   3+
        documentation string 3+ null

ALTER_CONFIGS 0-2
  request
    resources       []     0+
      resource_type int8   0+
      resource_name string 0+
      configs       []     0+
        name        string 0+
        value       string 0+ null
    validate_only   bool   0+
  response
    throttle_time_ms int32  0+
    responses        []     0+
      error_code     int16  0+
      error_message  string 0+ null
      resource_type  int8   0+
      resource_name  string 0+

INCREMENTAL_ALTER_CONFIGS 0-1
  request
    resources            []     0+
      resource_type      int8   0+
      resource_name      string 0+
      configs            []     0+
        name             string 0+
        config_operation int8   0+
        value            string 0+ null
    validate_only        bool   0+
  response
    throttle_time_ms int32  0+
    responses        []     0+
      error_code     int16  0+
      error_message  string 0+ null
      resource_type  int8   0+
      resource_name  string 0+
""")
