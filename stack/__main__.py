"""`python -m stack …` is `switchyard stack …`."""

from stack.cli import app

if __name__ == "__main__":
    app(prog_name="switchyard stack")
