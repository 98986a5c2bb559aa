"""`python .ci/subjects.py [BASE]`: fails for commit subjects that break the rule in CONTRIBUTING, "Commits".

Checks the commits of HEAD that are not on BASE's first parents (default: `origin/main`, else `main`). On main itself,
and in a checkout without either branch, there are none.
"""

import re
import subprocess
import sys

MAX_CHARACTERS = 72
SUBJECT = re.compile(r"[a-z0-9_./, -]+: (?!(?:what|which|who|whoever|whose|where|of|the same|nobody|somebody) )[a-z]")


def wrong(subject: str) -> str | None:
    """The reason why a subject breaks the rule, or None."""
    if len(subject) > MAX_CHARACTERS:
        return f"has {len(subject)} characters; at most {MAX_CHARACTERS}"
    if not SUBJECT.match(subject):
        return "is not `area: verb object`, such as `gateway: bound half-sent requests by their start`"
    return None


def git(*words: str) -> str | None:
    """The output of a git command, or None if it fails."""
    done = subprocess.run(["git", *words], check=False, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def new_commits(base: str | None) -> list[tuple[str, str]]:
    """(id, subject) of each commit of HEAD that is not on the first parents of `base`, without merges."""
    bases = [base] if base else ["origin/main", "main"]
    for name in bases:
        known = git("rev-list", "--first-parent", "-1", name)
        if known is not None:
            log = git("log", "--no-merges", "--format=%h %s", f"{known.strip()}..HEAD") or ""
            return [(line.split(" ", 1)[0], line.partition(" ")[2]) for line in log.splitlines()]
    if base:
        sys.exit(f"git knows no {base}: give a branch or commit that it has")
    return []


def main(words: list[str]) -> int:
    faults = [
        f"{commit} {subject!r} {why}: reword it with `git rebase -i`"
        for commit, subject in new_commits(words[0] if words else None)
        if (why := wrong(subject))
    ]
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
