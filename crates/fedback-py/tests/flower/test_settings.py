"""Run and node configs."""

import pytest

from fedback.flower.settings import BadSetting, NodeSettings, RunSettings, overrides, values

RUN = {"spec": "/a/spec.toml", "set": "", "store": "", "resume": 0, "json": ""}


def test_defaults():
    settings = RunSettings.read(RUN)
    assert settings.store == "/a/fedback.db" and settings.resume is None and settings.json is None
    assert (settings.wait, settings.deadline, settings.minimum, settings.attempts) == (
        120,
        600,
        1,
        1,
    )


def test_what_the_app_declares_is_what_is_read():
    import tomllib
    from deployment import APP

    app = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert set(app) == set(RunSettings.__dataclass_fields__)
    read = RunSettings.read(app | {"spec": "/a/spec.toml"})
    assert read == RunSettings.read({"spec": "/a/spec.toml"})


def test_overrides_are_split_at_semicolons_outside_quotes():
    found = overrides(" rounds=3;algorithm.step_size={ constant = 0.1 } ; algorithm.scheme = full;")
    assert values(found) == {
        "rounds": 3,
        "algorithm.step_size": {"constant": 0.1},
        "algorithm.scheme": "full",
    }
    assert values(overrides("name='a;b'; x=\"c';'d\"")) == {"name": "a;b", "x": "c';'d"}
    assert overrides("") == ()


@pytest.mark.parametrize(
    "change, words",
    [
        ({"spec": ""}, "spec is missing"),
        ({"spec": "spec.toml"}, "absolute path"),
        ({"store": "fedback.db"}, "absolute path"),
        ({"set": "rounds"}, "key=value"),
        ({"set": "rounds=1; =3"}, "has '=3'"),
        ({"resume": -1}, "resume is -1"),
        ({"resume": "x"}, "resume is 'x'"),
        ({"minimum": 0}, "at least 1"),
        ({"deadline": 0}, "above 0"),
        ({"deadline": "soon"}, "above 0"),
        ({"wait": float("nan")}, "above 0"),
        ({"log": "xml"}, "log is 'xml'; give text or json"),
    ],
)
def test_bad_settings_say_what_is_allowed(change, words):
    with pytest.raises(BadSetting, match=words):
        RunSettings.read(RUN | change)


def test_a_node_says_whom_it_holds():
    partition = {"partition-id": 1, "num-partitions": 3}
    assert NodeSettings.read(partition, RUN).partition == (1, 3)
    listed = NodeSettings.read(partition | {"clients": "7, 0,3", "spec": "/b.toml"}, RUN)
    assert listed.clients == (0, 3, 7) and listed.partition is None and listed.spec == "/b.toml"
    assert NodeSettings.read({"clients": 4}, RUN).clients == (4,)
    for bad in [
        {},
        {"partition-id": 0},
        {"partition-id": 3, "num-partitions": 3},
        {"clients": "a"},
        {"clients": ""},
    ]:
        with pytest.raises(BadSetting):
            NodeSettings.read(bad, RUN)
