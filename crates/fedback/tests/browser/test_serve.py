"""The live page as people use it: runs as they happen, side by side, and what if."""

import json
import re
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest
import tomllib
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

# The machine may be busy with other tests.
expect.set_options(timeout=30_000)

WIDTHS = [400, 768, 1200, 2000]
HOSTILE = '</title><img src=x onerror="document.title=1"> & "quotes"'
SPEC = """
rounds = 60
repetitions = 4
measure = { every = 2, consensus = true, client_risk = true }
[problem]
weights = [0.5, 0.3, 0.2]
base = { kind = "gaussian", mean = [[1.0, 0.5], [2.0, 1.0], [4.0, 2.0]], dim = 2 }
response = { kind = "location", sensitivity = [0.2, 0.5, 0.9] }
loss = { kind = "mean" }
[algorithm]
kind = "p-fedavg"
scheme = "without-replacement"
cohort = 2
step_size = { beta = 4.0, gamma = 40.0 }
"""
SWEEP = """
[sweep]
"algorithm.local_steps" = [1, 2, 5]
"algorithm.cohort" = [1, 2]
"""


class Site:
    """A server of a folder's store."""

    def __init__(self, command: Path, folder: Path, *args: str):
        line = [command, "serve", "--listen", "127.0.0.1:0", *args]
        self.folder = folder
        self.command = command
        self.process = subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()

    def run(self, *args: str):
        subprocess.run([self.command, *args], cwd=self.folder, check=True, capture_output=True)

    def begin(self, *args: str):
        return subprocess.Popen(
            [self.command, *args],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def site(command, tmp_path_factory):
    """A server with a sweep, a run of a hostile name, and one more."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "spec.toml").write_text(SPEC)
    (folder / "sweep.toml").write_text(SPEC + SWEEP)
    own = Site(command, folder, "--spec", "spec.toml")
    own.run("run", "sweep.toml", "--tag", "grid")
    own.run("run", "spec.toml", "--set", f"name={json.dumps(HOSTILE)}", "--note", HOSTILE)
    own.run("run", "spec.toml", "--tag", "single")
    yield own
    own.close()


@pytest.fixture
def start(command, tmp_path):
    """Starts servers in a folder, which outlive the windows of a test."""
    (tmp_path / "spec.toml").write_text(SPEC)
    started: list[Site] = []

    def start() -> Site:
        started.append(Site(command, tmp_path))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def see(site, visit):
    """A view of the page in a window."""

    def see(view: str, width=1200, **window):
        viewport = {"width": width, "height": 900}
        within = (site.address, f"blob:{site.address}")
        page = visit(f"{site.address}#/{view}", within=within, viewport=viewport, **window)
        page.set_default_timeout(30_000)
        expect(page.locator("#status")).to_have_text(re.compile("[0-9]+ runs"))
        return page

    return see


def figure(page, place="main"):
    return page.locator(f"{place} .figure svg").first


def rows(page) -> list[str]:
    return page.locator(".runs tbody tr[data-row]").evaluate_all(
        "(rows) => rows.map((row) => row.dataset.row)"
    )


VIEWS = ["runs", "run/0.7", "compare?runs=0.1,0.2,0.3", "what-if?from=file:0&sampled=no"]
SHOWN = {
    "runs": ".runs tbody tr[data-row]",
    "run": "main .figure svg",
    "compare": "main .figure svg",
    "what-if": ".verdict .badge",
}


def shown(page, view):
    page.locator(SHOWN[re.split("[/?]", view)[0]]).first.wait_for()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_every_view(see, view, scheme):
    page = see(view, color_scheme=scheme)
    shown(page, view)
    found = Axe().run(page)
    serious = [
        one for one in found.response["violations"] if one["impact"] in ("serious", "critical")
    ]
    assert [(one["id"], [node["html"] for node in one["nodes"][:3]]) for one in serious] == []


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_fits(see, view, width):
    page = see(view, width)
    shown(page, view)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_runs_are_found_sorted_grouped_and_selected(see):
    page = see("runs")
    expect(page.locator(".runs tbody tr[data-row]")).to_have_count(8)
    assert rows(page)[0] == "0.8"
    page.get_by_role("button", name="local_steps").click()
    assert rows(page)[0] in ("0.1", "0.2", "0.7", "0.8")
    page.get_by_label("Find").fill("#grid cohort=2")
    expect(page.locator(".runs tbody tr[data-row]")).to_have_count(3)
    page.get_by_label("Find").fill("")
    page.get_by_label("Group by").select_option("algorithm.local_steps")
    expect(page.locator(".runs .group")).to_have_count(3)
    page.locator(".runs .group button").first.click()
    expect(page.locator(".runs tbody tr[data-row^='0.']")).to_have_count(4)
    page.reload()
    expect(page.get_by_label("Group by")).to_have_value("algorithm.local_steps")
    page.get_by_label("select run 3").check()
    page.get_by_label("select run 5").check()
    page.get_by_role("button", name="Compare 2").click()
    expect(figure(page)).to_be_visible()
    assert "algorithm.local_steps" in page.locator("main").inner_text()


def test_names_stay_text(see):
    page = see("runs")
    row = page.locator(".runs tbody tr[data-row='0.7']")
    assert HOSTILE in row.inner_text()
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", name=re.compile("Run 7"))).to_contain_text(HOSTILE)
    expect(figure(page)).to_be_visible()
    assert page.locator("img").count() == 0 and page.title().startswith("Run 0.7")


def test_a_run_shows_what_it_left(see):
    page = see("run/0.8")
    expect(figure(page)).to_be_visible()
    text = page.locator("main").inner_text()
    for words in "θ by coordinate", "stable point", "client risk", "distance_sq", "communications":
        assert words in text, words
    before = figure(page).inner_html()
    page.get_by_label("Upwards").select_option("risk")
    expect(page.locator(".figure")).not_to_have_js_property("innerHTML", before)
    page.get_by_label("Across").select_option("uploads")
    expect(figure(page).locator(".panel")).to_contain_text("uploads")
    expect(figure(page).locator(".panel")).to_contain_text("performative risk")
    assert "x=uploads" in page.url and "y=risk" in page.url


def test_a_curve_hides_and_tells_its_values(see):
    page = see("run/0.8")
    entry = figure(page).locator(".legend").first
    entry.focus()
    page.keyboard.press("Enter")
    assert entry.get_attribute("aria-pressed") == "false"
    expect(figure(page).locator(".series.off").first).to_be_hidden()
    page.keyboard.press("Enter")
    assert entry.get_attribute("aria-pressed") == "true"
    box = figure(page).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#values")).to_contain_text("simulated: ")


def test_what_is_seen_is_taken_away(see):
    page = see("run/0.8")
    expect(figure(page)).to_be_visible()
    with page.expect_download() as vector:
        page.get_by_role("button", name="SVG").click()
    text = Path(vector.value.path()).read_text()
    assert text.startswith("<svg") and "<style>" in text
    with page.expect_download() as pixels:
        page.get_by_role("button", name="PNG").click()
    assert Path(pixels.value.path()).read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as numbers:
        page.get_by_role("link", name="CSV").click()
    lines = Path(numbers.value.path()).read_text().splitlines()
    assert len(lines) == 32 and lines[0].startswith("round,step")


def test_a_run_grows_while_it_is_looked_at(site, see):
    running = site.begin("run", "spec.toml", "--set", "rounds=3000000", "--set", "name=live")
    try:
        page = see("runs")
        row = page.locator(".runs tbody tr", has_text="live").first
        row.wait_for()
        expect(row.locator(".badge")).to_have_text("running")
        row.get_by_role("link").click()
        expect(figure(page)).to_be_visible()
        first = figure(page).locator(".series").first.get_attribute("data-values")
        page.wait_for_function(
            """(first) => document.querySelector("main .figure").shadowRoot
                .querySelector(".series").dataset.values !== first""",
            arg=first,
        )
        running.send_signal(signal.SIGINT)
        running.wait()
        expect(page.locator("h1 + p .badge")).to_have_text("interrupted")
    finally:
        running.kill()
        running.wait()


def test_what_if_answers_as_the_command_does(site, see):
    page = see("what-if?from=file:0")
    shown(page, "what-if")
    page.get_by_label("local steps, E, as a number").fill("7")
    expect(page.locator(".field.changed")).to_have_count(1)
    assert "set=algorithm.local_steps%3D7" in page.url
    answer = subprocess.run(
        [site.command, "solve", "spec.toml", "--json", "--set", "algorithm.local_steps=7"],
        cwd=site.folder,
        check=True,
        capture_output=True,
        text=True,
    )
    point = json.loads(answer.stdout)["stable_point"]
    words = ", ".join(f"{value:.4g}" for value in point)
    expect(page.locator(".cards")).to_contain_text(f"[{words}]")
    expect(page.locator(".verdict")).to_contain_text("settles")
    expect(page.locator("section .quiet", has_text="sampled in")).to_be_visible()
    page.reload()
    expect(page.get_by_label("local steps, E, as a number")).to_have_value("7")


def test_what_if_is_saved_as_a_spec_that_runs(site, see):
    page = see("what-if?from=file:0&set=algorithm.cohort%3D1&set=strength%3D0.5")
    shown(page, "what-if")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as spec").click()
    text = Path(saved.value.path()).read_text()
    spec = tomllib.loads(text)
    assert spec["algorithm"]["cohort"] == 1
    assert spec["problem"]["response"]["sensitivity"] == [0.1, 0.25, 0.45]
    (site.folder / "saved.toml").write_text(text)
    site.run("run", "saved.toml", "--store", "none")


def test_a_wrong_value_is_said_and_the_page_goes_on(see):
    page = see("what-if?from=file:0")
    shown(page, "what-if")
    page.get_by_label("clients a round, K, as a number").fill("9")
    expect(page.locator(".trouble")).to_contain_text("cohort")
    page.get_by_label("clients a round, K, as a number").fill("3")
    expect(page.locator(".trouble")).to_have_count(0)
    expect(page.locator(".verdict .badge")).to_be_visible()


def test_a_slider_pulled_quickly_ends_with_its_last_place(see):
    page = see("what-if?from=file:0&sampled=no")
    shown(page, "what-if")
    slider = page.get_by_label("strength: all sensitivities times", exact=True)
    slider.evaluate(
        """(slider) => { for (let at = 0; at <= 1000; at += 1) {
            slider.value = at;
            slider.dispatchEvent(new Event("input", { bubbles: true }));
        } }"""
    )
    expect(page.locator(".verdict .badge")).to_have_text("does not settle")
    expect(page.locator("main section.waiting")).to_have_count(0)
    assert "strength%3D2.5" in page.url


def test_the_boundary_is_drawn(see):
    page = see("what-if?from=file:0&sampled=no")
    shown(page, "what-if")
    page.get_by_role("button", name="Draw the boundary").click()
    expect(page.locator("main")).to_contain_text(re.compile(r"settles: \d+"))
    expect(
        page.get_by_role("region", name="Where this algorithm settles").locator("svg")
    ).to_be_visible()


def test_the_keyboard_alone_is_enough(see):
    page = see("runs")
    shown(page, "runs")
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate("document.activeElement.dataset.kind ?? document.activeElement.tagName")
        )
        if "link" in seen:
            break
    assert {"A", "INPUT", "SELECT", "BUTTON", "link"} <= seen
    first = page.evaluate("document.activeElement.closest('tr').dataset.row")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('tr').dataset.row") != first
    page.keyboard.press("Enter")
    expect(figure(page)).to_be_visible()
    assert "#/run/" in page.url


def test_thousands_of_runs_are_a_few_rows(start, visit):
    own = start()
    own.run("run", "spec.toml")
    many = 3000
    # A copy is damaged, since its checksum knows its number: it is listed all the same.
    with sqlite3.connect(own.folder / "fedback.db") as store:
        columns = [row[1] for row in store.execute("PRAGMA table_info(run)") if row[1] != "id"]
        names = ", ".join(columns)
        for _ in range(many):
            store.execute(f"INSERT INTO run ({names}) SELECT {names} FROM run WHERE id = 1")
    page = visit(own.address, viewport={"width": 1200, "height": 900})
    expect(page.locator("#status")).to_have_text(f"{many + 1} runs", timeout=120_000)
    assert page.locator(".runs tbody tr").count() < 80
    page.locator(".runs").evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
    expect(page.locator(".runs tbody tr[data-row='0.1']")).to_be_visible()


def test_a_store_that_vanishes_is_said(start, visit):
    own = start()
    own.run("run", "spec.toml")
    page = visit(own.address, viewport={"width": 1200, "height": 900})
    expect(page.locator("#status")).to_have_text("1 runs")
    for file in own.folder.glob("fedback.db*"):
        file.unlink()
    expect(page.locator(".trouble")).to_contain_text("is gone")
    own.run("run", "spec.toml")
    own.run("run", "spec.toml")
    expect(page.locator("#status")).to_have_text("2 runs")
    expect(page.locator(".trouble")).to_have_count(0)
