"""Keys of a Spark job's summary for its submitter, when the job has no result: the reason."""

from typing import Final

REFUSED: Final = "refused"
"""Running the job again cannot help."""
FAILED: Final = "failed_because"
"""Running the job again may help."""
