"""Exit codes: what a caller can do about each is another thing. 0 is success and nothing else."""

SUCCESS = 0
FAILURE = 1
"""Something was begun and did not succeed. The text says what stands, and how to go on."""
BAD_INPUT = 2
"""What was asked for cannot be done: not understood, not confirmed, or a verdict speaks against it. Nothing was
changed, and to ask for the same again does not help."""
UNDONE = 3
"""It was begun, failed, and was taken back: no fence, no lock, and nothing has moved. It can be tried again."""
OUT_OF_REACH = 4
"""ZooKeeper, or a cluster without which it cannot be done, does not answer. Nothing was begun."""
BUSY = 5
"""Another operation works on it. Nothing was changed; wait for its end."""
ATTENTION = 6
"""A look has found something that waits for a human: `status --check`, `origins check`."""
DEFECT = 70
"""A defect of this program: run it again with --debug."""
IN_SHORT = (
    "Exit codes: 0 done; 1 failed, see the text; 2 cannot be done as asked; 3 undone; 4 out of reach; 5 busy; "
    "6 something waits for a human; 70 a defect."
)
