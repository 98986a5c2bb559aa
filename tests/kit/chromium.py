"""A browser as Debian has it: Chromium without a screen, driven by its own driver."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

PACKAGES = ("chromium", "chromium-driver")
INSTALL_S = 600.0
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000")


@cache
def missing() -> str:
    """The reason why Chromium cannot run, or "". It is installed where that is allowed."""
    if _installed():
        return ""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return f"Chromium is not installed: apt-get install {' '.join(PACKAGES)}"
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *PACKAGES]
    said = ""
    for command in (install, ["apt-get", "update"], install):
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        said = done.stderr[-300:]
        if command is install and done.returncode == 0:
            break
    return "" if _installed() else f"Chromium cannot be installed: {said}"


@contextmanager
def browser() -> Iterator[Chrome]:
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # With the path of the driver selenium fetches nothing.
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.set_page_load_timeout(60)
        yield driver
    finally:
        driver.quit()


def _installed() -> bool:
    return all(shutil.which(name) for name in ("chromium", "chromedriver"))
