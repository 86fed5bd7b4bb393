"""Runs with clients behind a transport, without any network: the bits of runs in memory."""

from collections import deque

import numpy as np
import pytest

import fedback


class Loopback:
    """Sites in this very process. ``lost`` says which answers never come."""

    def __init__(self, sites, lost=lambda order, client: False):
        self.holder = {client: site for site in sites for client in site.clients}
        self.lost, self.mail, self.orders, self.refusals = lost, deque(), [], []

    def ask(self, order):
        self.orders.append(order)
        gone = {client for client in order.clients if self.lost(order, client)}
        self.mail.extend(("absent", client, "gone") for client in sorted(gone))
        for place, (repetition, client) in enumerate(zip(order.repetitions, order.clients)):
            if client in gone:
                continue
            site = self.holder[int(client)]
            assert order.plan_hash == site.plan_hash
            pair = (np.array([repetition]), np.array([client]))
            own = order.kept[place : place + 1]
            delta, kept = site.update(order.round, order.seed, *pair, order.thetas, own)
            self.mail.append(("update", order.round, repetition, client, delta[0], kept[0]))

    def next(self):
        return self.mail.popleft() if self.mail else ("deadline",)

    def refused(self, repetition, client, reason):
        self.refusals.append((repetition, client, reason))


@pytest.fixture
def few(two_sites):
    return two_sites.set(repetitions=3, rounds=12, measure={"every": 4, "consensus": True})


@pytest.mark.parametrize(
    "scheme",
    [{"scheme": "full"}, {"scheme": "with-replacement", "cohort": 3},
     {"scheme": "without-replacement", "cohort": 1}],
    ids=lambda scheme: scheme["scheme"],
)  # fmt: skip
@pytest.mark.parametrize("deploy", ["step", "round"])
def test_the_bits_of_a_run_in_memory(few, scheme, deploy, tmp_path):
    keys = {f"algorithm.{key}": value for key, value in scheme.items()}
    spec = few.set({**keys, "algorithm.deploy": deploy})
    sites = [fedback.Site(spec, clients=[client]) for client in (1, 0)]
    live = fedback.federate(spec, Loopback(sites), store=tmp_path / "runs.db")
    memory = fedback.run(spec)
    assert np.array_equal(live.final_theta, memory.final_theta)
    for name in ("distance_sq", "risk", "consensus"):
        assert np.array_equal(live[name], memory[name])
    replayed, same = fedback.replay(1, store=tmp_path / "runs.db")
    assert same and np.array_equal(replayed["risk"], memory["risk"])


ALGORITHMS = {
    "fedprox": fedback.fedprox(proximal=0.5, scheme="full", local_steps=3, step_size=0.1),
    "scaffold": fedback.scaffold(
        scheme="without-replacement", cohort=1, local_steps=3, step_size=0.1
    ),
    "momentum": fedback.fedopt(server=fedback.momentum(beta=0.5), scheme="full", step_size=0.1),
    "adam": fedback.fedopt(server=fedback.adam(rate=0.2), scheme="full", step_size=0.1),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_the_bits_of_a_run_in_memory(few, name, tmp_path):
    spec = fedback.Spec(few, algorithm=ALGORITHMS[name])
    sites = [fedback.Site(spec, clients=[client]) for client in (1, 0)]
    live = fedback.federate(spec, Loopback(sites), store=tmp_path / "runs.db")
    memory = fedback.run(spec)
    assert np.array_equal(live.final_theta, memory.final_theta)
    assert fedback.replay(1, store=tmp_path / "runs.db")[1]


def test_sites_remember_nothing(few):
    """What clients keep comes with the order and goes back with the update."""
    spec = fedback.Spec(few, algorithm=ALGORITHMS["scaffold"])
    site = fedback.Site(spec)
    assert (site.dim, site.broadcast, site.kept) == (1, 2, 1)
    pair, thetas = (np.array([0]), np.array([1])), np.array([[2.0, 0.25]])
    first = site.update(4, 7, *pair, thetas, np.array([[0.5]]))
    again = site.update(4, 7, *pair, thetas, np.array([[0.5]]))
    assert np.array_equal(first.delta, again.delta) and np.array_equal(first.kept, again.kept)
    # c_i - c + (theta - w_i) / (sum of steps).
    assert first.kept == pytest.approx(0.5 - 0.25 - first.delta / 0.3, rel=1e-12)
    with pytest.raises(fedback.InputError, match="keep 1 numbers.*call update"):
        site.work(4, 7, *pair, thetas)
    with pytest.raises(fedback.InputError, match="other shapes"):
        site.update(4, 7, *pair, thetas[:, :1])


def test_orders_say_what_is_asked(few):
    spec = few.set(measure={"every": 12})
    transport = Loopback([fedback.Site(spec)])
    fedback.federate(spec, transport)
    assert [order.round for order in transport.orders] == list(range(12))
    assert [order.step for order in transport.orders] == list(range(0, 24, 2))
    first = transport.orders[0]
    assert first.seed == 7 and not first.again and first.thetas.shape == (3, 1)
    assert sorted(zip(first.repetitions, first.clients)) == [
        (r, c) for r in range(3) for c in range(2)
    ]


def test_a_lost_client_is_done_without_and_the_run_replayed(few, tmp_path):
    spec = few.set(measure={"every": 4})
    lost = Loopback(
        [fedback.Site(spec)], lost=lambda order, client: client == 1 and order.round == 5
    )
    live = fedback.federate(spec, lost, store=tmp_path / "runs.db")
    assert [order.round for order in lost.orders if order.again] == [5]
    assert not np.array_equal(live.final_theta, fedback.run(spec).final_theta)
    assert fedback.replay(1, store=tmp_path / "runs.db")[1]


def test_too_few_clients_stop_the_run_which_goes_on_later(few, tmp_path):
    spec = few.set(measure={"every": 4})
    gone = Loopback([fedback.Site(spec)], lost=lambda order, client: order.round >= 6)
    with pytest.raises(fedback.RunError, match="round 6|minimum|answered"):
        fedback.federate(spec, gone, store=tmp_path / "runs.db", minimum=2)
    back = Loopback([fedback.Site(spec)])
    live = fedback.federate(spec, back, store=tmp_path / "runs.db", resume=1, minimum=2)
    assert live.resumed_from == 6 and back.orders[0].round == 6
    assert np.array_equal(live.final_theta, fedback.run(spec).final_theta)
    with pytest.raises(fedback.InputError, match="another plan"):
        fedback.federate(spec.set(seed=9), back, store=tmp_path / "runs.db", resume=1)


def test_bad_updates_are_refused(few):
    class Lying(Loopback):
        def next(self):
            came = super().next()
            if came[0] == "update" and not self.refusals:
                self.mail.appendleft(came)
                return (*came[:4], np.array([np.nan]))
            return came

    transport = Lying([fedback.Site(few)])
    live = fedback.federate(few, transport)
    [(_, _, reason)] = transport.refusals
    assert "finite" in reason
    assert np.array_equal(live.final_theta, fedback.run(few).final_theta)


def test_exceptions_of_a_transport_come_out(few):
    class Broken(Loopback):
        def next(self):
            raise ConnectionError("no way")

    with pytest.raises(ConnectionError, match="no way"):
        fedback.federate(few, Broken([fedback.Site(few)]))


def test_sites_that_observe(few):
    """A real site has one function; the server has none, and measures nothing it cannot see."""
    spec = few.set(
        problem={"clients": 2, "base": {"kind": "custom"}, "loss": {"kind": "mean"}},
        measure={"every": 4},
    ).set({"algorithm.deploy": "round"})
    asked = []

    def observe(theta, n, rng):
        asked.append(n)
        return 3.0 + 0.5 * theta + rng.standard_normal((n, 1))

    sites = [fedback.Site(spec, clients=[client], observe=observe) for client in range(2)]
    live = fedback.federate(spec, Loopback(sites))
    assert set(asked) == {4}, "two local steps of two observations, in one call"
    assert np.isnan(live["risk"]).all() and live.to_dict()["curve"][0]["risk"]["mean"] is None
    draw = lambda client, theta, n, rng: observe(theta, n, rng)  # noqa: E731
    spec.draw = draw
    assert np.array_equal(live.final_theta, fedback.run(spec).final_theta)


def test_a_site_refuses_orders_that_are_not_for_it(few):
    site = fedback.Site(few)
    with pytest.raises(fedback.InputError, match="an order for other shapes"):
        site.work(0, 7, np.array([0]), np.array([5]), np.zeros((1, 1)))
    with pytest.raises(fedback.InputError, match=r"clients\[0\]: found 2; allowed: .*0 to 1"):
        fedback.Site(few, clients=[2])


def test_tables_that_only_their_sites_can_read(tmp_path):
    """The bits of one table with all rows, from sums alone."""
    rng = np.random.default_rng(4)
    banks = {client: rng.normal(5.0, 3.0, size=(20 + 7 * client, 2)) for client in range(3)}
    labels = {client: (rows[:, 0] > 5.0).astype(int) for client, rows in banks.items()}
    files = {}
    for client, rows in banks.items():
        files[client] = tmp_path / f"{client}.csv"
        lines = [f"{y},{b!r},{a!r}" for (a, b), y in zip(rows.tolist(), labels[client])]
        files[client].write_text("\n".join(["y,b,a", *lines]))
    options = {"standardize": True, "intercept": True, "label": "y"}
    together = fedback.table(
        {
            "a": np.concatenate([rows[:, 0] for rows in banks.values()]),
            "b": np.concatenate([rows[:, 1] for rows in banks.values()]),
            "y": np.concatenate(list(labels.values())),
            "bank": np.repeat(list(banks), [len(rows) for rows in banks.values()]),
        },
        partition={"column": "bank"},
        **options,
    )

    def spec(base):
        return fedback.Spec(
            rounds=6,
            repetitions=2,
            measure={"every": 3},
            problem={
                "clients": 3,
                "base": base,
                "response": fedback.best_response(
                    features=["b"], sensitivity={"low": 0.0, "high": 1.0}
                ),
                "loss": fedback.logistic(l2=0.1),
            },
            algorithm=fedback.p_fedavg(scheme="full", local_steps=2, batch=3, step_size=0.3),
        )

    memory = fedback.run(spec(together))
    incomplete = spec({"kind": "sites", "features": ["a", "b"], **options})
    held = [
        fedback.Tables(incomplete, {c: files[c] for c in clients}) for clients in ((2, 0), (1,))
    ]
    told = sorted(
        zip(*map(np.concatenate, zip(*(site.sums() for site in held)))), key=lambda one: one[0]
    )
    clients, rows, sums = zip(*told)
    mean = fedback.census_mean(rows, sums)
    squares = np.empty((3, 2))
    for site in held:
        squares[site.sums()[0]] = site.squares(mean)
    complete = fedback.census(incomplete, rows, mean, squares)
    sites = [
        fedback.Site(complete, clients=tables.sums()[0].tolist(), tables=tables) for tables in held
    ]
    live = fedback.federate(complete, Loopback(sites), store=tmp_path / "runs.db")
    assert list(clients) == [0, 1, 2] and np.array_equal(live.final_theta, memory.final_theta)
    assert np.array_equal(fedback.load(1, store=tmp_path / "runs.db").final_theta, live.final_theta)
    with pytest.raises(fedback.InputError, match="rows: is missing; the Flower app gathers it"):
        fedback.federate(incomplete, Loopback(sites))


@pytest.mark.parametrize("correct", [False, True])
def test_first_arrivals_are_recorded_and_replayed(few, correct, tmp_path):
    """Whoever comes first makes the cohort, which is recorded: a replay has the same bits."""
    spec = few.set(
        {
            "algorithm.scheme": "first-arrivals",
            "algorithm.cohort": 1,
            "algorithm.correct": correct,
            "measure": {"every": 4},
        }
    )
    with pytest.raises(fedback.InputError, match="in memory nobody knows who answers first"):
        fedback.run(spec, store=tmp_path / "runs.db")
    assert not (tmp_path / "runs.db").exists()

    class Racing(Loopback):
        """Client 1 is first in every third round."""

        def ask(self, order):
            super().ask(order)
            if order.round % 3 == 0:
                self.mail.reverse()

    race = Racing([fedback.Site(spec)])
    live = fedback.federate(spec, race, store=tmp_path / "runs.db")
    replayed, same = fedback.replay(1, store=tmp_path / "runs.db")
    assert same and np.array_equal(replayed["risk"], live["risk"])
    assert all("round" in reason for _, _, reason in race.refusals), race.refusals
    # Interrupted and resumed, the past is remembered: the same coefficients, the same bits.
    broken = Racing([fedback.Site(spec)], lost=lambda order, client: order.round >= 7)
    with pytest.raises(fedback.RunError):
        fedback.federate(spec, broken, store=tmp_path / "runs.db")
    race = Racing([fedback.Site(spec)])
    resumed = fedback.federate(spec, race, store=tmp_path / "runs.db", resume=2)
    assert resumed.resumed_from == 7
    assert np.array_equal(resumed.final_theta, live.final_theta)


def test_ctrl_c_stops_a_run_that_waits_for_its_sites(few, tmp_path):
    """A signal comes while nobody answers; the run stops, and can be resumed."""
    import signal

    class Silent(Loopback):
        def next(self):
            if self.orders[-1].round < 3:
                return super().next()
            if not self.mail:
                return None
            self.mail.clear()
            signal.raise_signal(signal.SIGINT)
            return None

    spec = few.set(measure={"every": 4})
    with pytest.raises(KeyboardInterrupt):
        fedback.federate(spec, Silent([fedback.Site(spec)]), store=tmp_path / "runs.db")
    back = Loopback([fedback.Site(spec)])
    live = fedback.federate(spec, back, store=tmp_path / "runs.db", resume=1)
    assert live.resumed_from == 3
    assert np.array_equal(live.final_theta, fedback.run(spec).final_theta)


def test_weights_that_react_are_refused_before_anything_runs(tmp_path):
    spec = fedback.Spec(
        rounds=3,
        problem=fedback.Problem(
            weights=[0.7, 0.3],
            base=fedback.gaussian(mean=[1.0, 4.0]),
            response=fedback.retention(by="client", rate=1.0),
            loss=fedback.mean(),
        ),
        algorithm=fedback.p_fedavg(scheme="full", step_size=0.1),
    )
    transport = Loopback([])
    with pytest.raises(fedback.InputError, match="problem.response: clients' weights react here"):
        fedback.federate(spec, transport, store=tmp_path / "runs.db")
    assert not transport.orders and not (tmp_path / "runs.db").exists()
