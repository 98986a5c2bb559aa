"""The history as evidence: seals, events, and answers to an auditor's questions."""
