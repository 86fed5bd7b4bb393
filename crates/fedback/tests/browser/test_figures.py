"""Text in figures fits, whatever it says and whichever font the reader has."""

import pytest

SPEC = """
rounds = 4
repetitions = 2
measure = { every = 2 }
[problem]
weights = [0.5, 0.3, 0.2]
base = { kind = "gaussian", mean = [1.0, 2.0, 4.0] }
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
"algorithm.local_steps" = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
"algorithm.cohort" = [1, 2]
"""
NAMES = [
    "MMM WWW MAXIMUM",
    "ALPHA BANK",
    "a name of many words, which nobody would give and which is still to be read to its end",
    "a_name_without_a_single_space_that_somebody_has_made_of_the_path_of_a_file_and_its_folder",
    "i",
]
# What leaves the picture, and what stands on other text.
MISPLACED = """(font) => {
    const figure = document.documentElement;
    const style = document.createElementNS(figure.namespaceURI, "style");
    style.textContent = `.fedback-figure { font-family: "${font}" !important }`;
    figure.append(style);
    const { width, height } = figure.viewBox.baseVal;
    const texts = [...figure.querySelectorAll("text")].map((one) => [
        one.textContent, one.getBBox()]);
    const outside = texts.filter(([, box]) =>
        box.x < 0 || box.y < 0 || box.x + box.width > width || box.y + box.height > height);
    const apart = (a, b) => a.x + a.width <= b.x || a.y + a.height <= b.y + 2;
    const torn = texts.flatMap(([one, a], at) => texts.slice(at + 1)
        .filter(([, b]) => !apart(a, b) && !apart(b, a)).map(([other]) => `${one} / ${other}`));
    return [...outside.map(([text]) => text), ...torn];
}"""


@pytest.fixture(scope="module")
def runs(fedback, tmp_path_factory):
    """A folder with runs of awkward names, then a sweep of many values."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "spec.toml").write_text(SPEC)
    (folder / "sweep.toml").write_text(SPEC + SWEEP)
    for name in NAMES:
        fedback(folder, "run", "spec.toml", "--set", f'name="{name}"')
    fedback(folder, "run", "sweep.toml")
    return folder


@pytest.mark.parametrize("size", ["screen", "single", "double"])
@pytest.mark.parametrize(
    "question",
    [
        "1-5",
        "1-5 --y distance_sq,risk",
        "6-17 --x uploads",
        "6-29 --x local_steps",
        "6-29 --x local_steps --map cohort",
        "6-29 --panels cohort",
    ],
)
def test_text_fits(fedback, runs, visit, question, size):
    fedback(runs, "compare", *question.split(), "--size", size, "--out", "figure.svg")
    for font in "DejaVu Sans", "Liberation Sans", "serif":
        assert visit((runs / "figure.svg").as_uri()).evaluate(MISPLACED, font) == []
