"""Request templates: a request like an earlier one is recognised by its bytes and not decoded."""
