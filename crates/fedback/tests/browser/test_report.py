"""The report as people use it: pointed at, clicked, printed, in the dark, on a phone."""

import csv
import re

import pytest
from axe_playwright_python.sync_playwright import Axe

WIDTHS = [390, 768, 1200, 2000]


@pytest.fixture
def open_report(report, visit):
    """The report in a window of some width and colour scheme."""

    def open_report(width=1200, **window):
        viewport = {"width": width, "height": 900}
        return visit((report / "report.html").as_uri(), viewport=viewport, **window)

    return open_report


def point_at(page, figure, share, height=0.5):
    """Points at a share of a panel's width; the lines shown there."""
    figure.scroll_into_view_if_needed()
    x, y = place(figure, share, height)
    page.mouse.move(x, y)
    return shown(page)


def place(figure, share, height=0.5):
    """A place within a figure's panel, in the window's pixels."""
    box = figure.evaluate(
        """(figure) => {
            const { xRange, yRange } = figure.querySelector(".panel").dataset;
            const [left, right] = xRange.split(" ").map(Number);
            const [bottom, top] = yRange.split(" ").map(Number);
            const corner = (x, y) => new DOMPoint(x, y).matrixTransform(figure.getScreenCTM());
            const [a, b] = [corner(left, top), corner(right, bottom)];
            return [a.x, a.y, b.x, b.y];
        }"""
    )
    left, top, right, bottom = box
    return left + share * (right - left), top + height * (bottom - top)


def shown(page) -> list[str]:
    """The lines under the pointer."""
    values = page.locator("#values")
    return values.inner_text().splitlines() if values.is_visible() else []


def curves(folder, figure) -> dict[str, dict[float, float]]:
    """The curves of a figure as the files beside the page have them: y over x, by name."""
    title = figure.locator("title").text_content()
    (drawing,) = (
        path for path in folder.glob("*.svg") if f"<title>{title}</title>" in path.read_text()
    )
    names = figure.locator(".series:not([data-shared])").evaluate_all(
        "(groups) => groups.map((group) => group.dataset.name)"
    )
    curves = {}
    for number, name in enumerate(names, start=1):
        for ending, kind in ("", ""), ("-exact", ", exact"):
            with (folder / f"{drawing.stem}-{number}{ending}.csv").open() as file:
                rows = list(csv.DictReader(file))
            curves[name + kind] = {
                float(row["step"]): float(row["distance_sq_mean"]) for row in rows
            }
    return curves


def test_values_under_the_pointer_are_those_of_the_files(report, open_report):
    page = open_report()
    figures = page.locator(".fedback-figure").all()
    assert len(figures) == 3
    for figure in figures:
        files = curves(report, figure)
        steps = float(figure.locator(".panel").get_attribute("data-x-domain").split()[1])
        for share in 0.001, 0.2, 0.37, 0.5, 0.81, 0.999:
            at, *lines = point_at(page, figure, share)
            assert float(at.removeprefix("at ")) == pytest.approx(share * steps, abs=0.01 * steps)
            assert [line.rsplit(": ", 1)[0] for line in lines] == list(files)
            for line in lines:
                name, value = line.rsplit(": ", 1)
                value, _, own = value.partition(" at ")
                x = float(own or at.removeprefix("at "))
                assert float(value) == float(f"{files[name][x]:.4g}"), line


def test_nothing_is_said_beside_the_panel(open_report):
    page = open_report()
    figure = page.locator(".fedback-figure").first
    assert point_at(page, figure, 0.5) != []
    assert point_at(page, figure, 0.5, height=1.05) == []
    assert point_at(page, figure, 0.5) != []
    page.mouse.move(2, 2)
    assert shown(page) == []


def test_values_stay_on_the_screen(open_report):
    page = open_report(390)
    figure = page.locator(".fedback-figure").first
    for share in 0.01, 0.2, 0.4:
        assert point_at(page, figure, share) != []
        box = page.locator("#values").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_a_finger_asks_for_values(open_report):
    page = open_report(390, has_touch=True)
    figure = page.locator(".fedback-figure").first
    figure.scroll_into_view_if_needed()
    page.touchscreen.tap(*place(figure, 0.2))
    assert shown(page)[0].startswith("at ")
    page.touchscreen.tap(3, 3)
    assert shown(page) == []


def drawn(figure) -> list[str]:
    """The names of the series that can be seen."""
    series = figure.locator(".series").all()
    return [group.get_attribute("data-name") for group in series if group.is_visible()]


def hides_and_shows(page, figure, toggle, hidden):
    """Toggling hides these series and their values, toggling again shows them."""
    entry = figure.locator(".legend").first
    names = drawn(figure)
    for expected, pressed in (names, "true"), (set(names) - hidden, "false"), (names, "true"):
        assert set(drawn(figure)) == set(expected)
        lines = point_at(page, figure, 0.3)[1:]
        assert [line.split(": ")[0] for line in lines] == drawn(figure)
        assert entry.get_attribute("aria-pressed") == pressed
        toggle()


def test_a_click_hides_a_series(open_report):
    page = open_report()
    figure = page.locator(".fedback-figure").first
    click = figure.locator(".legend").first.click
    hides_and_shows(page, figure, click, {"full", "full, exact"})


def test_what_shares_an_entry_is_hidden_together(open_report):
    figure = open_report().locator(".fedback-figure").first
    own = [name for name in drawn(figure) if not name.endswith(", exact")]
    figure.locator(".legend", has_text="exact").click()
    assert drawn(figure) == own and len(own) == 3


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_the_keyboard_hides_a_series(open_report, key):
    page = open_report()
    figure = page.locator(".fedback-figure").first
    entry = figure.locator(".legend").first
    unfocused = figure.screenshot()
    page.locator("table.claims a").last.focus()
    page.keyboard.press("Tab")
    assert entry.evaluate("(entry) => entry === document.activeElement")
    assert figure.screenshot() != unfocused, "focus cannot be seen"
    hides_and_shows(page, figure, lambda: page.keyboard.press(key), {"full", "full, exact"})


A4 = {"width": 673, "height": 1001}  # within margins of 16 mm, in pixels


def test_on_paper_everything_is_open_and_nothing_is_torn(open_report):
    page = open_report(A4["width"])
    point_at(page, page.locator(".fedback-figure").first, 0.2)
    page.emulate_media(media="print")
    assert all(table.is_visible() for table in page.locator(".numbers").all())
    assert page.locator("summary:visible, nav:visible, #values:visible").count() == 0
    fixed = "(all) => all.filter((one) => getComputedStyle(one).position === 'fixed').length"
    assert page.locator("body *").evaluate_all(fixed) == 0
    for block in page.locator("figure, .claim, tr").all():
        assert block.evaluate("(block) => getComputedStyle(block).breakInside") == "avoid"
        box = block.bounding_box()
        assert box["height"] < A4["height"] and box["width"] <= A4["width"], block
    link = page.locator("a[href^=http]").first
    address = link.evaluate("(link) => getComputedStyle(link, '::after').content")
    assert link.get_attribute("href") in address
    assert len(re.findall(rb"/Type /Page\b", page.pdf(format="A4"))) > 3


def test_paper_is_white_in_the_dark(open_report):
    page = open_report(color_scheme="dark")
    page.emulate_media(media="print")
    for block, paint in ("body", "background-color"), (".fedback-figure .paper", "fill"):
        style = f"(one) => getComputedStyle(one).getPropertyValue('{paint}')"
        assert page.locator(block).first.evaluate(style) == "rgb(255, 255, 255)"


CONTRASTS = """() => {
    const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const luminance = (colour) => {
        const [r, g, b] = channels(colour).slice(0, 3).map((value) => {
            const share = value / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
        const figure = element.closest(".fedback-figure");
        if (figure) return getComputedStyle(figure.querySelector(".paper")).fill;
        const colour = getComputedStyle(element).backgroundColor;
        return channels(colour)[3] === 0 ? behind(element.parentElement) : colour;
    };
    const written = (element) =>
        [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) &&
        element.checkVisibility();
    return [...document.querySelectorAll("body *:not(script, style, title, desc)")]
        .filter(written)
        .map((element) => {
            const style = getComputedStyle(element);
            const ink = luminance(element.closest("svg") ? style.fill : style.color);
            const paper = luminance(behind(element));
            const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
            return [element.textContent, contrast];
        });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(open_report, scheme):
    page = open_report(color_scheme=scheme)
    point_at(page, page.locator(".fedback-figure").first, 0.2)
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > 100
    assert [(text, contrast) for text, contrast in contrasts if contrast < 4.5] == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.parametrize("width", WIDTHS)
def test_every_width_is_enough(open_report, width):
    page = open_report(width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # A claim has a line of its own on a phone, and no column is narrower than a few words.
    for cell in page.locator(".claims td:first-child").all():
        assert cell.bounding_box()["width"] >= min(width - 40, 200)
    letter = "(text) => 12 * text.ownerSVGElement.getScreenCTM().a"
    assert page.locator(".fedback-figure .name").first.evaluate(letter) >= 10


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_report, scheme):
    found = Axe().run(open_report(color_scheme=scheme))
    assert found.violations_count == 0, found.generate_report()
