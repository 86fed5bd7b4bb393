"""What a census came to, which travels with questions and orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import fedback


@dataclass(frozen=True)
class Gathered:
    """What a census came to: every client's count of rows and, where features are standardised,
    their means and standard deviations."""

    rows: tuple[int, ...]
    sums: tuple[tuple[float, ...], ...] = ()

    @staticmethod
    def of(rows: np.ndarray, sums: np.ndarray | None) -> Gathered:
        """From the fields of a message."""
        told = () if sums is None else tuple(map(tuple, sums.tolist()))
        return Gathered(tuple(rows.tolist()), told)

    def fields(self) -> dict[str, np.ndarray]:
        """The fields of a message."""
        sums = {"sums": np.array(self.sums)} if self.sums else {}
        return {"rows": np.array(self.rows, dtype=np.uint64), **sums}

    def complete(self, spec: fedback.Spec) -> fedback.Spec:
        """The spec with it."""
        base: dict[str, Any] = {"problem.base.rows": self.rows}
        if self.sums:
            base["problem.base.mean"], base["problem.base.sd"] = self.sums
        return spec.set(base)
