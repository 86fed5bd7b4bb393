"""What a notebook shows: HTML of specs and results, a display that grows while a run goes on."""

import re
import sys
import xml.etree.ElementTree as xml
from html.parser import HTMLParser

import numpy as np
import pytest

import fedback
from fedback import _html, _live

HOSTILE = "<script>alert('a')</script>\"&</svg></style>"
VOID = {"meta", "br", "hr"}


class Page(HTMLParser):
    """Reads HTML as a browser would: which tags it has, what it says, if all are closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.said = [], [], ""
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.said += data + " "


def shown(thing):
    """What a notebook shows of something, which is small and asks nobody for anything."""
    text = thing._repr_html_()
    page = Page(text)
    assert "script" not in page.tags and "img" not in page.tags and "link" not in page.tags
    assert not re.search(r"url\(|@import", text)
    assert not set(re.findall(r"https?://[^\"' <]*", text)) - {"http://www.w3.org/2000/svg"}
    assert len(text) < 60_000
    return page


def test_a_solution_shows_who_has_left():
    problem = fedback.Problem(
        weights=[0.6, 0.4],
        base=fedback.gaussian(mean=[0.0, 3.0]),
        response=fedback.retention(by="client", rate=1.2),
        loss=fedback.mean(),
    )
    algorithm = fedback.p_fedavg(scheme="full", step_size=0.05)
    spec = fedback.Spec(
        name="towns", rounds=2, problem=problem, algorithm=algorithm, measure={"every": 1}
    )
    said = shown(fedback.solve(spec)).said
    for part in ["if nobody had left", "2.289", "who stays", "33", "1.679", "repelling"]:
        assert part in said, part
    assert "driven away" not in said
    said = shown(fedback.run(spec)).said
    assert "retained" in said and "base_risk" in said
    far = spec.set({"problem.base.mean": [0.0, 8.0]})
    assert fedback.solve(far).stable_point_details[0]["driven_away"] == ["client 1"]
    assert "driven away" in shown(fedback.solve(far)).said
    # Where nobody leaves and one point is stable, nothing is added.
    still = spec.set({"problem.response": {"kind": "location", "sensitivity": 0.5}})
    assert "who stays" not in shown(fedback.solve(still)).said


def people(names):
    rng = np.random.default_rng(1)
    return {
        HOSTILE: rng.normal(size=60),
        "debt": rng.normal(size=60),
        "default": rng.integers(0, 2, 60),
        "bank": np.repeat(names, 60 // len(names)),
    }


@pytest.fixture
def hostile() -> fedback.Spec:
    """Everything that may have a name has one that means harm."""
    data = people([HOSTILE, "b", "c"])
    return fedback.Spec(
        name=HOSTILE, rounds=30, repetitions=3, doubts=[HOSTILE],
        measure={"client_risk": True, "every": 10},
        algorithm=fedback.p_fedavg(scheme="full", step_size=0.2),
        problem=fedback.Problem(
            base=fedback.table(data, label="default", partition={"column": "bank"}),
            loss=fedback.logistic(l2=0.1),
            response=fedback.best_response(features=["debt"], sensitivity=[0.5, 1.0, 1.5]),
        ),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:doubted in the spec")
def test_names_are_escaped_everywhere(hostile):
    run = fedback.run(hostile)
    sweep = fedback.run(hostile.set(sweep={"name": [HOSTILE, "x"]}))
    answers = [fedback.solve(hostile), fedback.check(hostile), fedback.bounds(hostile)]
    incomplete = fedback.Spec({**hostile.table, "rounds": HOSTILE})
    for thing in (hostile, incomplete, run, sweep, *answers):
        page = shown(thing)
        if thing is not answers[2]:
            assert HOSTILE in page.said, type(thing)


def test_a_spec_says_what_it_is(two_sites):
    swept = two_sites.set(sweep={"algorithm.local_steps": [1, 5]})
    said = shown(swept).said
    for part in ("Spec two-sites", "2, weights [0.7, 0.3]", "1 coordinate", "gaussian: mean [1, 4]",
                 "location: sensitivity [0.5, 0.9]", "p-fedavg: scheme full", "60 rounds, 400 rep",
                 "seed 7", "sweep algorithm.local_steps", "every 20"):  # fmt: skip
        assert part in said, part
    del swept.table["algorithm"]
    assert "incomplete" in (said := shown(swept).said) and "algorithm" in said

    def leaving(client, theta, n, rng):
        return rng.normal(size=(n, 1))

    custom = fedback.Spec(
        two_sites,
        problem=fedback.Problem(population=leaving, dim=1, clients=2, loss=lambda theta, batch: 0),
    )
    said = shown(custom).said
    assert "function leaving" in said and "function <lambda>" in said


def test_a_run_says_what_came_of_it(two_sites):
    run = fedback.run(two_sites)
    page = shown(run)
    assert "svg" in page.tags
    for part in ("Run two-sites", "2 clients, 400 repetitions, 120 local steps, not recorded",
                 _html.uncertain(run.mean("risk")[-1], run.standard_error("risk")[-1]),
                 _html.number(run.exact.mean("distance_sq")[-1])):  # fmt: skip
        assert part in page.said, part
    page = shown(fedback.exact(two_sites))
    assert "svg" in page.tags and "Exact expectations of two-sites" in page.said
    nothing = fedback.run(two_sites, set={"measure": {"risk": False, "distance": False}})
    assert "nothing was measured" in shown(nothing).said.lower()
    broken = two_sites.set({"algorithm.step_size": {"constant": 1e6}, "rounds": 400})
    with pytest.warns(UserWarning):
        failed = fedback.run(broken, on_failure="return")
    assert "stopped being finite: 400 of 400" in shown(failed).said


def test_a_sweep_is_a_table_and_one_figure(two_sites):
    swept = {"algorithm.local_steps": [1, 5], "algorithm.batch": [1, 4]}
    runs = fedback.run(two_sites.set(sweep=swept))
    page = shown(runs)
    assert page.tags.count("svg") == 1 and page.tags.count("tr") == 5
    assert "Sweep of 4 points: Run" in page.said and "local_steps" in page.said
    for run in runs:
        last = run.mean("risk")[-1], run.standard_error("risk")[-1]
        assert _html.uncertain(*last) in page.said
    answers = fedback.check(two_sites.set(sweep=swept))
    assert "Sweep of 4 points: Certificate" in (said := shown(answers).said)
    assert said.count("settles") >= 4
    many = fedback.run(two_sites.set(sweep={"seed": list(range(30))}), set={"repetitions": 2})
    page = shown(many)
    assert "svg" not in page.tags and "30 curves are too many" in page.said
    assert "and 6 more" in page.said.lower()
    assert "no points" in shown(fedback.Sweep()).said


def test_answers_in_words(two_sites):
    certificate = fedback.check(two_sites)
    page = shown(certificate)
    assert "svg" in page.tags and page.tags.count("tr") == 7 + 3
    for part in (
        "Retraining settles.",
        "0.62; below μ/L = 1, which suffices",
        "[5], risk 3.125",
        "56.5 %",
    ):
        assert part in page.said, part
    said = shown(fedback.solve(two_sites)).said
    assert "Stable point of two-sites" in said and "2.64" in said and "θ[0]" in said
    said = shown(fedback.bounds(two_sites)).said
    assert "Theorem 3.1" in said and "corrected" in said and "varsigma" in said


def test_a_plan_and_its_rivals(two_sites):
    plan = fedback.plan(two_sites, accuracy=0.1, communication_cost=10.0, progress=False)
    page = shown(plan)
    assert "svg" in page.tags
    for part in ("Squared distance 0.1, reached and kept", f"E = {plan.local_steps}, full",
                 "the spec's own: E = 2, full", "the paper's theorem, corrected",
                 ": holds"):  # fmt: skip
        assert part in page.said, part
    own = plan["own_setting"]["total_time"] / plan["total_time"]
    assert _html.number(own) in page.said
    none = fedback.plan(two_sites, accuracy=1e-9, budget=10, progress=False)
    assert none.spec is None and none["binding"]["reason"][5:30] in shown(none).said


def test_words_of_numbers():
    assert [_html.number(x) for x in (0.5, 1e15, 1.5e-7, None, float("nan"))] == [
        "0.5", "1e15", "1.5e-7", "–", "–"]  # fmt: skip
    assert _html.words([1.0, 2.5, "a"]) == "[1, 2.5, a]"
    assert _html.words(list(range(9))) == "[0, 1, 2, 3, 4, 5, … 9 in all]"
    assert _html.words({"beta": 4.0, "on": True}) == "beta 4, on yes"
    assert _html.uncertain(0.12345, 0.00678) == "0.1235 ± 0.0068"
    assert _html.whole(1_234_567) == "1\u202f234\u202f567"


class Display:
    """Stands for a notebook's: keeps what was shown, in how many displays."""

    def __init__(self):
        self.shown, self.displays = [], 0

    def __call__(self, html, display_id):
        assert display_id is True
        self.displays += 1
        self.shown.append(html.data)
        return self

    def update(self, html):
        self.shown.append(html.data)


@pytest.fixture
def notebook(monkeypatch):
    """As if in a notebook that shows everything at once."""
    display = pytest.importorskip("IPython.display")
    found = Display()
    monkeypatch.setattr(display, "display", found)
    monkeypatch.setattr("fedback.progress._in_notebook", lambda: True)
    monkeypatch.setattr(_live, "PATIENCE", 0.0)
    monkeypatch.setattr(_live, "PAUSE", 0.0)
    monkeypatch.setattr(_live, "SHARE", 1.0)
    return found


def curve_of(html):
    """The points that a live curve has: their steps and values."""
    svg = xml.fromstring(re.search(r"<svg.*</svg>", html, flags=re.DOTALL).group())
    [series] = [one for one in svg.iter() if one.get("class") == "series"]
    points = [point.split() for point in series.get("data-values").split(";")]
    return np.array(points, dtype=float)[:, 1:]


def test_a_live_curve_is_that_of_the_run(two_sites, notebook):
    long = two_sites.set({"rounds": 30_000, "measure.every": 200, "repetitions": 50})
    run = fedback.run(long)
    assert notebook.displays == 1 and len(notebook.shown) > 1
    lengths = [len(curve_of(one)) for one in notebook.shown if "<svg" in one]
    assert lengths == sorted(lengths) and lengths[-1] == len(run.rounds)
    last = curve_of(notebook.shown[-1])
    assert np.array_equal(last[:, 0], run.steps)
    assert np.allclose(last[:, 1], run.mean("distance_sq"), rtol=2e-3)
    said = Page(notebook.shown[-1]).said
    assert "done" in said and _html.uncertain(
        run.mean("distance_sq")[-1], run.standard_error("distance_sq")[-1]
    ) in said  # fmt: skip
    assert "left" in Page(notebook.shown[0]).said or "Round 0 of" in Page(notebook.shown[0]).said
    # Nobody listening changes nothing.
    assert np.array_equal(run.final_theta, fedback.run(long, progress=False).final_theta)


def test_a_sweep_has_all_its_curves_in_one_display(two_sites, notebook):
    swept = two_sites.set(sweep={"algorithm.local_steps": [1, 2]})
    runs = fedback.run(swept, set={"rounds": 10_000, "measure.every": 200})
    assert notebook.displays == 1
    last = notebook.shown[-1]
    assert "Point 2 of 2" in Page(last).said
    assert [run.label in last for run in runs] == [True, True]


def test_an_interrupted_run_leaves_its_picture(two_sites, notebook, tmp_path):
    store = tmp_path / "runs.db"
    endless = two_sites.set({"rounds": 10_000_000, "repetitions": 50, "measure.every": 1000})

    class Impatient(Display):
        def update(self, html):
            super().update(html)
            pictures = [one for one in self.shown if "<svg" in one]
            if len({len(curve_of(one)) for one in pictures}) > 1:  # The curve has grown.
                raise KeyboardInterrupt

    impatient = Impatient()
    sys.modules["IPython.display"].display = impatient
    with pytest.raises(KeyboardInterrupt, match="go on with fedback.resume"):
        fedback.run(endless, store=store)
    said = Page(impatient.shown[-1]).said
    assert "interrupted" in said and "left" not in said and "<svg" in impatient.shown[-1]
    [row] = fedback.runs(store)
    points = curve_of(impatient.shown[-1])
    assert points[-1, 0] == 2 * (row["round"] // 1000) * 1000


def test_a_resumed_run_shows_all_of_its_curve(two_sites, notebook, tmp_path):
    store = tmp_path / "runs.db"
    spec = two_sites.set({"rounds": 200_000, "repetitions": 50, "measure.every": 1000})

    class Impatient(Display):
        def update(self, html):
            super().update(html)
            if len(self.shown) == 2:
                raise KeyboardInterrupt

    sys.modules["IPython.display"].display = Impatient()
    with pytest.raises(KeyboardInterrupt):
        fedback.run(spec, store=store)
    sys.modules["IPython.display"].display = notebook
    run = fedback.resume(1, store=store)
    assert run.resumed_from > 0
    assert np.array_equal(curve_of(notebook.shown[-1])[:, 0], run.steps)


def test_a_picture_that_fails_does_not_end_the_run(two_sites, notebook, monkeypatch):
    def fails(html, display_id):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr("IPython.display.display", fails)
    with pytest.warns(UserWarning, match="progress is not shown any more: RuntimeError"):
        run = fedback.run(two_sites, set={"rounds": 5000})
    assert run.rounds[-1] == 5000


def test_a_plan_ends_its_bar(two_sites, notebook):
    fedback.plan(two_sites, accuracy=0.1, communication_cost=10.0)
    assert notebook.displays == 1 and "100 %" in (said := Page(notebook.shown[-1]).said)
    assert "done" in said


def test_nothing_is_shown_where_nobody_looks(two_sites, notebook, monkeypatch, capsys):
    fedback.run(two_sites, set={"rounds": 5000}, progress=False)
    monkeypatch.setattr("fedback.progress._in_notebook", lambda: False)
    fedback.run(two_sites, set={"rounds": 5000})
    assert notebook.shown == [] and capsys.readouterr() == ("", "")


def test_time_in_words():
    assert [_live._duration(x) for x in (0.2, 59.4, 61, 3700)] == [
        "0 s", "59 s", "1 min 1 s", "1 h 1 min"]  # fmt: skip
