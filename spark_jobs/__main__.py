"""`spark-submit spark_jobs/__main__.py JOB …`, or `python -m spark_jobs JOB …` for Spark on this machine."""

import sys

if __name__ == "__main__":
    from pathlib import Path

    # spark-submit puts this file's own folder on the path, where the jobs would be top-level modules.
    here = Path(__file__).resolve().parent
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != here]
    if str(here.parent) not in sys.path:
        sys.path.insert(0, str(here.parent))

    from spark_jobs.command import main
    from spark_jobs.leaving import leave

    leave(main(sys.argv[1:]))
