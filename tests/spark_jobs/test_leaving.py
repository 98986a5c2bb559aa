"""The end of a job's process, while threads of it wait for a Spark driver that does not answer."""

import socket
import subprocess
import sys
import threading
from pathlib import Path

PROJECT = Path(__file__).parents[2]
WAITS_FOR_AN_ANSWER = """
import builtins, socket, sys, threading, time
import pyarrow
from spark_jobs.leaving import leave

class LongEnd:
    def __init__(self, sleep=time.sleep):
        self.sleep = sleep
    def __del__(self):
        self.sleep(2)

def read(driver):
    with pyarrow.ipc.open_stream(driver.makefile("rwb", 65536)) as answer:
        list(answer)

builtins.last = LongEnd()  # the interpreter ends slowly, as with Spark's modules on a busy machine
driver = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
threading.Thread(target=read, args=(driver,), daemon=True).start()
time.sleep(0.3)
driver.send(b".")
print("a summary", end="")
leave(3)
"""


def test_a_job_ends_with_its_exit_code_while_the_driver_that_it_waits_for_is_killed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as driver:

        def die_while_the_job_ends() -> None:
            taken = driver.accept()[0]
            taken.recv(1)
            threading.Event().wait(0.7)
            taken.close()

        threading.Thread(target=die_while_the_job_ends, daemon=True).start()
        command = [sys.executable, "-c", WAITS_FOR_AN_ANSWER, str(driver.getsockname()[1])]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (3, "a summary"), done.stderr
