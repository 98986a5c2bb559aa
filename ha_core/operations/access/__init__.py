"""Users, rights, quotas, bindings and usage, as operations change them and gateways enforce them."""
