"""Access rules. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
DESCRIBE_ACLS 1-3
  request
    resource_type_filter int8   1+
    resource_name_filter string 1+ null
    pattern_type_filter  int8   1+ = 3
    principal_filter     string 1+ null
    host_filter          string 1+ null
    operation            int8   1+
    permission_type      int8   1+
  response
    throttle_time_ms    int32  1+
    error_code          int16  1+
    error_message       string 1+ null
    resources           []     1+
      resource_type     int8   1+
      resource_name     string 1+
      pattern_type      int8   1+ = 3
      acls              []     1+
        principal       string 1+
        host            string 1+
        operation       int8   1+
        permission_type int8   1+

CREATE_ACLS 1-3
  request
    creations               []     1+
      resource_type         int8   1+
      resource_name         string 1+
      resource_pattern_type int8   1+ = 3
      principal             string 1+
      host                  string 1+
      operation             int8   1+
      permission_type       int8   1+
  response
    throttle_time_ms int32  1+
    results          []     1+
      error_code     int16  1+
      error_message  string 1+ null

DELETE_ACLS 1-3
  request
    filters                []     1+
      resource_type_filter int8   1+
      resource_name_filter string 1+ null
      pattern_type_filter  int8   1+ = 3
      principal_filter     string 1+ null
      host_filter          string 1+ null
      operation            int8   1+
      permission_type      int8   1+
  response
    throttle_time_ms    int32  1+
    filter_results      []     1+
      error_code        int16  1+
      error_message     string 1+ null
      matching_acls     []     1+
        error_code      int16  1+
        error_message   string 1+ null
        resource_type   int8   1+
        resource_name   string 1+
        pattern_type    int8   1+ = 3
        principal       string 1+
        host            string 1+
        operation       int8   1+
        permission_type int8   1+
""")
