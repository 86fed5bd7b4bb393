"""The compiled half. Arrays travel as the bytes of little-endian numbers."""

from collections.abc import Callable
from os import PathLike
from typing import Any

__version__: str
STREAM_FORMAT: int

class InputError(ValueError): ...

class RunError(RuntimeError):
    run: Any

class Document:
    def __init__(self, json: str, origin: str, directory: str | PathLike) -> None: ...
    @staticmethod
    def read(path: str | PathLike) -> Document: ...
    @staticmethod
    def parse(text: str, origin: str) -> Document: ...
    def set(self, assignments: list[str]) -> Document: ...
    @property
    def json(self) -> str: ...
    @property
    def toml(self) -> str: ...
    @property
    def directory(self) -> PathLike: ...
    @property
    def origin(self) -> str: ...
    def shape(self) -> tuple[int, int, str, bool]: ...

class Outcome:
    @property
    def json(self) -> str: ...
    @property
    def csv(self) -> str: ...
    @property
    def set(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def id(self) -> int | None: ...
    @property
    def ending(self) -> str: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def rounds(self) -> bytes: ...
    @property
    def steps(self) -> bytes: ...
    @property
    def times(self) -> bytes: ...
    def statistic(self, column: int) -> tuple[bytes, bytes]: ...
    def values(self, column: int) -> bytes: ...
    @property
    def final_theta(self) -> bytes: ...
    @property
    def exact(self) -> Outcome | None: ...
    def svg(self) -> str: ...

class Site:
    def __init__(
        self,
        document: Document,
        *,
        draw: Callable | None,
        loss: Callable | None,
        tables: SiteTables | None,
    ) -> None: ...
    @property
    def plan_hash(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def clients(self) -> int: ...
    @property
    def broadcast(self) -> int: ...
    @property
    def kept(self) -> int: ...
    def work(
        self,
        seed: int,
        round: int,
        repetitions: bytes,
        clients: bytes,
        broadcasts: bytes,
        kept: bytes,
    ) -> tuple[bytes, bytes]: ...

class SiteTables:
    def __init__(self, document: Document, files: list[tuple[int, str | PathLike]]) -> None: ...
    def sums(self) -> list[tuple[int, int, bytes]]: ...
    def squares(self, mean: bytes) -> list[tuple[int, bytes]]: ...

def census_mean(rows: list[int], sums: list[list[float]]) -> bytes: ...
def census_sd(
    rows: list[int], mean: list[float], squares: list[list[float]], features: list[str]
) -> bytes: ...
def run(
    document: Document,
    *,
    store: str | PathLike | None,
    tags: list[str],
    note: str,
    threads: int | None,
    progress: Callable[[str, int, int], Any] | None,
    draw: Callable | None,
    loss: Callable | None,
) -> list[Outcome]: ...
def resume(
    id: int,
    *,
    store: str | PathLike,
    threads: int | None,
    progress: Callable[[str, int, int], Any] | None,
    draw: Callable | None,
    loss: Callable | None,
) -> Outcome: ...
def replay(
    id: int, *, store: str | PathLike, draw: Callable | None, loss: Callable | None
) -> tuple[Outcome, bool]: ...
def federate(
    document: Document,
    transport: Any,
    *,
    store: str | PathLike | None,
    resume: int | None,
    minimum: int,
    attempts: int,
    progress: Callable[[str, int, int], Any] | None,
    draw: Callable | None,
    loss: Callable | None,
) -> Outcome: ...
def exact(document: Document) -> list[Outcome]: ...
def solve(document: Document) -> list[tuple[str, str]]: ...
def bounds(
    document: Document,
    *,
    delta: float | None,
    sigma: float | None,
    varsigma: float | None,
    mu: float | None,
    smoothness: float | None,
    accuracy: float | None,
    communication_cost: float | None,
) -> list[tuple[str, str]]: ...
def check(document: Document) -> list[tuple[str, str, str | None]]: ...
def plan(
    document: Document,
    *,
    accuracy: float,
    communication_cost: float,
    straggler: float,
    latency_model: str,
    budget: int,
    local_steps: list[int] | None,
    schemes: list[str] | None,
    algorithms: list[str],
    max_cohort: int | None,
    safety: float | None,
    smoothness: float | None,
    repetitions: int | None,
    progress: Callable[[str, int, int], Any] | None,
) -> tuple[str, str, str | None]: ...
def fit(
    data: str | PathLike,
    deployments: str | PathLike,
    *,
    output: str | PathLike,
    client: str,
    deployment: str,
    individual: str | None,
    label: str | None,
    ignore: list[str],
    response: str | None,
    features: list[str] | None,
    shape: str | None,
    reference: str | None,
    confidence: float,
    seed: int,
    force: bool,
) -> tuple[str, list[str]]: ...
def reproduce(
    figures: list[str], *, out: str | PathLike, quick: bool, seed: int | None
) -> tuple[PathLike, str, list[str]]: ...
def credit(file: str | PathLike | None) -> tuple[PathLike, str | None]: ...
def schema() -> str: ...
def runs(path: str | PathLike) -> str: ...
def load(id: int, path: str | PathLike) -> Outcome: ...
def show(id: int, path: str | PathLike) -> str: ...
def differing(ids: list[int], path: str | PathLike) -> str: ...
def note(id: int, note: str | None, tags: list[str] | None, path: str | PathLike) -> None: ...
def rm(ids: list[int], path: str | PathLike) -> None: ...
def write_bundle(id: int, out: str | PathLike, path: str | PathLike) -> None: ...
def import_bundle(file: str | PathLike, path: str | PathLike) -> list[int]: ...
def score(
    id: int, rows: bytes, place: str, repetition: int | None, path: str | PathLike
) -> tuple[str, int]: ...
