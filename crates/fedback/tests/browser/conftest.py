"""A real Chromium, and pages for it that the command has written."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="session")
def command() -> Path:
    """The command, as `cargo build` leaves it."""
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug" / "fedback"


@pytest.fixture(scope="session")
def fedback(command):
    """Runs the command in a folder."""
    return lambda folder, *args: subprocess.run([command, *args], cwd=folder, check=True)


@pytest.fixture(scope="session")
def report(fedback, tmp_path_factory) -> Path:
    """The folder of a report on two of the paper's figures, one of them with long curves."""
    folder = tmp_path_factory.mktemp("report")
    fedback(folder, "reproduce", "convergence", "local-steps", "--quick", "--out", ".")
    return folder


@pytest.fixture(scope="session")
def chromium():
    """The system's Chromium; it cannot have a sandbox of its own when it is run by root."""
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """Opens an address in a window of its own, and fails if the page then complains or asks for
    anything from elsewhere; what begins with `within` is here."""
    windows, complaints = [], []

    def visit(address: str, within: tuple[str, ...] = (), **window):
        windows.append(chromium.new_context(**window))
        windows[-1].set_default_timeout(5000)
        page = windows[-1].new_page()

        def requested(request):
            if not request.url.startswith((address, *within)):
                complaints.append(f"asked for {request.url}")

        page.on("request", requested)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        return page

    yield visit
    for window in windows:
        window.close()
    assert complaints == []
