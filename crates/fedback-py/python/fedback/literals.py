"""Words that arguments are: for annotations of your own, and for what is allowed where one is
wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

#: Who takes part in a round.
Scheme = Literal["full", "with-replacement", "without-replacement", "first-arrivals"]
#: Schemes that a plan may choose from.
PlannedScheme = Literal["full", "with-replacement", "without-replacement"]
#: What batches react to: the local θ, or the one last broadcast.
Deploy = Literal["step", "round"]
Aggregate = Literal["deltas", "iterates"]
#: What becomes of missing cells.
Missing = Literal["error", "drop", "mean"]
#: What becomes of a run of which repetitions stop being finite.
OnFailure = Literal["raise", "return"]
#: Where a run is worked out.
Device = Literal["cpu", "cuda", "auto"]
#: How long clients take; ``"lognormal:0.5"`` too.
Latency = Literal["constant", "exponential"] | str
#: The kind of a response, and what a client's sensitivity is.
Response = Literal["best-response", "location"]
Shape = Literal["auto", "scalar", "vector", "matrix"]
#: The side of a threshold that rows want, and how cost grows with way.
Wants = Literal["positive", "negative"]
CostKind = Literal["linear", "quadratic"]
#: What leaves together, how likely it is to stay, and whether clients' weights follow.
By = Literal["client", "label", "row"] | Mapping[str, str]
Law = Literal["exponential", "logistic"]
Turnout = Literal["fixed", "follow"]
#: What becomes of steps near a stable point, and what a certificate says.
Stability = Literal["attracting", "repelling", "none", "unknown"]
Verdict = Literal[
    "settles", "settles-with-small-steps", "minimisation-only", "does-not-settle", "unknown"
]  # fmt: skip
#: What curves are drawn over.
Over = Literal[
    "step", "round", "time", "steps", "communications", "uploads", "sample_gradients",
    "rows_drawn", "deployments",
]  # fmt: skip
#: A figure on a screen, or in one or two columns of a page.
Size = Literal["screen", "single", "double"]
#: What a recorded run is written as.
Format = Literal["csv", "json", "svg", "npz", "bundle"]
