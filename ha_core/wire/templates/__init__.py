"""Request templates: requests like an earlier one are recognised by their bytes and not decoded."""
