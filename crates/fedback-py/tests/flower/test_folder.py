"""Paths of a run config stay in one folder; a result replaces nothing but a result."""

import json
import os
import stat

import pytest
from flwr.app import Context, RecordDict
from test_runs import grid

from fedback.flower import folder, server_app
from fedback.flower.folder import check_result, confined, write_result
from fedback.flower.settings import BadSetting, RunSettings


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder of a run, with things outside that it must not touch."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "outside").mkdir()
    (home / "link").symlink_to(tmp_path / "outside")
    monkeypatch.delenv(folder.VARIABLE, raising=False)
    return home


def settings(home, **more):
    return confined(RunSettings.read({"spec": str(home / "spec.toml"), **more}))


def test_paths_in_the_folder_are_taken(home, tmp_path, monkeypatch):
    inside = str(home / "deep/result.json")
    assert settings(home, json=inside).json == inside
    assert settings(home, store="none").store is None
    monkeypatch.setenv(folder.VARIABLE, str(tmp_path))
    assert settings(home, json=str(tmp_path / "outside/r.json")).json.endswith("outside/r.json")


@pytest.mark.parametrize("key", ["json", "store", "sites"])
def test_paths_out_of_it_are_refused(home, tmp_path, key):
    for path in (tmp_path / "x", home / "link/x", f"{home}-two/x", "/etc/passwd"):
        with pytest.raises(BadSetting, match=f"{key} is .*outside {home}; give a path in"):
            settings(home, **{key: str(path)})
    with pytest.raises(BadSetting, match=f"{key} is .*without '..'"):
        settings(home, **{key: f"{home}/a/../x"})


def test_so_is_a_spec_out_of_the_servers_folder(home, tmp_path, monkeypatch):
    monkeypatch.setenv(folder.VARIABLE, str(tmp_path / "outside"))
    with pytest.raises(BadSetting, match="spec is .*outside"):
        settings(home)
    monkeypatch.setenv(folder.VARIABLE, "relative")
    with pytest.raises(BadSetting, match="FEDBACK_FOLDER is 'relative'; give an absolute path"):
        settings(home)


RESULT = {"format": 1, "final_theta": [1.0], "spec": ""}


@pytest.mark.parametrize("held", [b"", b"notes", b"[1]", b'{"format": 1}', b"\xff\xfe"])
def test_a_file_that_is_no_result_is_not_replaced(home, held):
    path = home / "result.json"
    path.write_bytes(held)
    with pytest.raises(BadSetting, match=f"{path}.* not an earlier result; give another, or"):
        write_result(str(path), RESULT)
    assert path.read_bytes() == held
    with pytest.raises(BadSetting, match="Is a directory"):
        check_result(str(home))


def test_a_result_replaces_a_result_whole_and_private(home):
    path = home / "result.json"
    for theta in (1.0, 2.0):
        write_result(str(path), RESULT | {"final_theta": [theta]})
        assert json.loads(path.read_text())["final_theta"] == [theta]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(TypeError):
        write_result(str(path), RESULT | {"final_theta": object()})
    assert json.loads(path.read_text())["final_theta"] == [2.0]
    assert {file.name for file in home.iterdir()} == {"link", "result.json"}


def test_a_run_writes_for_its_owner_only_and_looks_at_the_file_first(place, tmp_path):
    spec, path = place("gaussian"), tmp_path / "result.json"
    config = {"spec": str(spec), "set": "", "json": str(path)}
    context = Context(1, 1, {}, RecordDict(), config)
    before = os.umask(0o022)
    try:
        server_app.main(grid(spec, ""), context)
        files = [path, tmp_path / "fedback.db"]
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        path.write_text("something else")
        loop = grid(spec, "")
        with pytest.raises(BadSetting, match="not an earlier result"):
            server_app.main(loop, context)
        assert loop.seen == []
    finally:
        os.umask(before)
