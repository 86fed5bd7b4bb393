"""Flower's simulation engine: the same bits."""

import pytest
from results import in_memory, result


@pytest.mark.parametrize("name", ["gaussian", "table"])
def test_a_run_has_the_bits_of_the_one_in_memory(simulation, place, tmp_path, name):
    spec = place(name)
    log = simulation.run(name, spec=spec, json=tmp_path / "result.json")
    assert "fedback: done" in log, log
    assert result(tmp_path / "result.json") == in_memory(spec)
