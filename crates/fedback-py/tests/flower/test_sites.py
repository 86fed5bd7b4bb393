"""Sites that observe for real: the examples, in one federation."""

import importlib.util
from pathlib import Path

import numpy as np
import psycopg
import pytest
from deployment import Deployment
from postgres import Postgres
from results import numbers, result

import fedback

SITES = Path(__file__).parents[2] / "examples/sites"

PEOPLE = """utilisation,lines,default
0.31,0.4,0
0.92,0.7,1
0.11,0.2,0
0.53,0.5,1
0.74,0.6,1
0.45,0.3,0
"""

# The world, as far as the second site sees it: as soon as a model is deployed, forty people react.
WORLD = """
create function people() returns trigger language plpgsql as $$
begin
    insert into outcome (utilisation, lines, defaulted)
    select k / 40.0 - 0.3 * new.theta[1], (k * 7 % 40) / 40.0 - 0.3 * new.theta[2], k > 25
    from generate_series(1, 40) k;
    return new;
end $$;
create trigger react after insert on deployment for each row execute function people();
"""


@pytest.fixture(scope="module")
def postgres():
    server = Postgres()
    yield server
    server.end()


def load(name):
    found = importlib.util.spec_from_file_location(name, SITES / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.observe


def anew(server):
    """A site that has deployed nothing and observed a little."""
    with psycopg.connect(server.database) as database:
        database.execute("drop table if exists outcome, deployment; drop function if exists people")
        database.execute((SITES / "schema.sql").read_text() + WORLD)
        database.execute(
            "insert into outcome (utilisation, lines, defaulted) values (99, 99, true)"
        )


def test_rows_are_those_collected_since_the_model_was_deployed(postgres, monkeypatch):
    anew(postgres)
    monkeypatch.setenv("SITE_DATABASE", postgres.database)
    monkeypatch.setenv("SITE_PATIENCE", "0")
    observe = load("postgres_site")
    for theta in (np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.0, 0.0])):
        for _ in range(2):  # a round that is asked again deploys nothing anew
            features, labels = observe(theta, 40, np.random.default_rng(1))
            assert sorted(features[:, 0]) == pytest.approx(
                [k / 40 - 0.3 * theta[0] for k in range(1, 41)]
            )
            assert labels.sum() == 15
    with psycopg.connect(postgres.database) as database:
        assert database.execute("select count(*) from deployment").fetchone() == (2,)
    with pytest.raises(TimeoutError, match="40 observations, 41 are needed"):
        observe(theta, 41, np.random.default_rng(1))


def test_two_real_sites_and_a_server_without_data(postgres, tmp_path, monkeypatch):
    anew(postgres)
    table = tmp_path / "oak.csv"
    table.write_text(PEOPLE)
    spec = tmp_path / "loans.toml"
    spec.write_text((SITES / "loans.toml").read_text())
    federation = Deployment(tmp_path / "federation")
    try:
        federation.node(
            "table",
            f'clients="0" observe="{SITES}/table_site.py:observe"',
            env={"SITE_TABLE": str(table)},
        )
        federation.node(
            "postgres",
            f'clients="1" observe="{SITES}/postgres_site.py:observe"',
            env={"SITE_DATABASE": postgres.database},
        )
        log = federation.run("sites", spec=spec, json=tmp_path / "result.json")
    finally:
        federation.end()
    assert "fedback: done" in log, log
    found = result(tmp_path / "result.json")
    with psycopg.connect(postgres.database) as database:
        deployed = [row[0] for row in database.execute("select theta from deployment order by id")]
    assert deployed[0] == [0.0, 0.0, 0.0] and len(deployed) == 2
    # The same in memory: each client's population is its site's function.
    anew(postgres)
    monkeypatch.setenv("SITE_TABLE", str(table))
    monkeypatch.setenv("SITE_DATABASE", postgres.database)
    functions = [load("table_site"), load("postgres_site")]
    alone = fedback.Spec(spec)
    alone.draw = lambda client, theta, n, rng: functions[client](theta, n, rng)
    in_memory = numbers(fedback.run(alone).to_dict())
    assert found["final_theta"] == in_memory["final_theta"]
