"""The fast path: requests like an earlier one are forwarded with a few bytes patched, and not decoded."""
