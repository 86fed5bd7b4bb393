"""Results to compare: everything that does not depend on the clock."""

import json
from pathlib import Path

import fedback


def result(path: Path) -> dict:
    """The numbers of a result written by the app. JSON has enough digits to read the same bits
    back."""
    return numbers(json.loads(path.read_text()))


def in_memory(spec: Path, **options) -> dict:
    """The numbers of the same spec run here, without a federation."""
    return numbers(fedback.run(spec, **options).to_dict())


def numbers(found: dict) -> dict:
    """Without what a clock or a store has put in."""
    found = json.loads(json.dumps(found))
    return {
        key: value for key, value in found.items() if key not in ("seconds", "resumed_from", "id")
    }
