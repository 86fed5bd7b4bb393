"""Models of JAX and PyTorch as losses: parameters flattened into θ, gradients of all clients at
once.

JAX and PyTorch are imported when they are asked for, and only then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from . import _native
from .streams import Streams, all_clients


class Model:
    """A loss of a model's parameters, for :class:`Problem`; θ has them one after the other."""

    _fedback_all_clients = True

    def __init__(
        self,
        start: np.ndarray,
        judge: Callable[[np.ndarray, Any], tuple[Any, Any]],
        unflatten: Callable[[np.ndarray], Any],
        made: tuple[Callable[..., Model], tuple[Any, ...]],
    ) -> None:
        #: The parameters that it was made with, as θ.
        self.start: np.ndarray = np.asarray(start, dtype=np.float64)
        self._judge, self._unflatten, self._made = judge, unflatten, made

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[Any, ...]]:
        # What is compiled stays here; it is made again of the user's function, elsewhere.
        return self._made

    @property
    def dim(self) -> int:
        """How many parameters."""
        return len(self.start)

    def unflatten(self, theta: np.ndarray) -> Any:
        """The parameters that a θ stands for, in the model's own form."""
        if np.shape(theta) != self.start.shape:
            found = f"an array of shape {np.shape(theta)}"
            raise _native.InputError(f"theta: found {found}; needed: {self.start.shape}")
        return self._unflatten(np.asarray(theta, dtype=np.float64))

    def __call__(self, theta: np.ndarray, batch: Any) -> tuple[np.ndarray, np.ndarray]:
        values, gradients = self._judge(theta, batch)
        return np.asarray(values, dtype=np.float64), np.asarray(gradients, dtype=np.float64)

    def __repr__(self) -> str:
        return f"Model({self.dim} parameters)"


def jax_model(loss: Callable[[Any, Any], Any], params: Any) -> Model:
    """A JAX function as a loss: ``loss(params, batch)`` is the mean loss of one client's batch, and
    ``params`` a tree of arrays, which says what parameters look like and where they may start.

    It is differentiated, mapped over clients and repetitions and compiled by JAX, in the precision
    that is switched on where this is called (``jax_enable_x64``).

    >>> import jax.numpy as jnp
    >>> import fedback
    >>> def softmax(params, batch):
    ...     features, labels = batch
    ...     scores = features @ params["weights"] + params["bias"]
    ...     picked = jnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    ...     return (jnp.log(jnp.exp(scores).sum(axis=1)) - picked).mean()
    >>> model = fedback.jax_model(softmax, {"weights": jnp.zeros((2, 3)), "bias": jnp.zeros(3)})
    >>> model
    Model(9 parameters)
    >>> model.unflatten(model.start)["weights"].shape
    (2, 3)
    """
    import jax
    from jax.flatten_util import ravel_pytree

    precision = _jax_precision()
    start, unravel = ravel_pytree(params)

    def alone(theta: Any, batch: Any) -> Any:
        return loss(unravel(theta), batch)

    compiled, rooms = jax.jit(jax.vmap(jax.value_and_grad(alone))), Rooms()

    def judge(theta: np.ndarray, batch: Any) -> tuple[Any, Any]:
        members = len(theta)
        with precision():
            models = theta.astype(start.dtype, copy=False)
            values, gradients = compiled(*rooms.fill(members, (models, batch)))
            return np.asarray(values)[:members], np.asarray(gradients)[:members]

    unflatten = lambda theta: unravel(theta.astype(start.dtype))
    made = (_jax_again, (loss, jax.tree.map(np.asarray, params), _jax_is_double()))
    return Model(np.asarray(start), judge, unflatten, made)


def _jax_again(loss: Callable[[Any, Any], Any], params: Any, double: bool) -> Model:
    """A model of another process, in the precision that was switched on there."""
    import jax

    with jax.enable_x64(double):
        return jax_model(loss, params)


class Rooms:
    """Numbers of members that a function was compiled for: cohorts are of many sizes, and one that
    nearly fills a room that is there is not worth another compilation."""

    def __init__(self) -> None:
        self.sizes: set[int] = set()

    def fill(self, members: int, arrays: Any) -> Any:
        """The arrays, their last row repeated until they fill a room."""
        import jax

        room = self.room(members)
        if room == members:
            return arrays
        rows = np.minimum(np.arange(room), members - 1)
        return jax.tree.map(lambda array: np.asarray(array)[rows], arrays)

    def room(self, members: int) -> int:
        """The smallest room that is not much too large; a new one where there is none."""
        fits = [size for size in self.sizes if members <= size <= 1.25 * members]
        # The first two are those of a round and of a risk, which may never change.
        spare = 0 if len(self.sizes) < 2 else members // 8
        room = min(fits, default=members + spare)
        self.sizes.add(room)
        return room


def _jax_precision() -> Callable[[], Any]:
    """JAX's precision of now, which belongs to a thread, for threads that call a function later."""
    import jax

    double = _jax_is_double()
    return lambda: jax.enable_x64(double)


def _jax_is_double() -> bool:
    import jax

    return bool(jax.dtypes.canonicalize_dtype(np.float64) == np.float64)


def jax_population(
    draw: Callable[[Any, Any, Any, int], Any], model: Model | None = None
) -> Callable[[np.ndarray, np.ndarray, int, Streams], Any]:
    """A JAX function as a population: ``draw(key, client, theta, n)`` returns n observations of one
    client, made of a key of ``jax.random``; with a ``model``, it gets its parameters for θ.

    It is mapped over clients and repetitions and compiled by JAX. Keys come from fedback's own
    streams, so that the run is seeded.
    """
    import jax

    precision = _jax_precision()

    def alone(key: Any, client: Any, theta: Any, n: int) -> Any:
        return draw(key, client, theta if model is None else model._unflatten(theta), n)

    compiled = jax.jit(jax.vmap(alone, in_axes=(0, 0, 0, None)), static_argnums=3)
    rooms: dict[int, Rooms] = {}

    @all_clients
    def population(clients: np.ndarray, theta: np.ndarray, n: int, rng: Streams) -> Any:
        members = len(clients)
        with precision():
            given = rooms.setdefault(n, Rooms()).fill(members, (rng.keys(), clients, theta))
            batch = compiled(*given, n)
            return jax.tree.map(lambda array: np.asarray(array)[:members], batch)

    return population


def torch_model(loss: Callable[[Any, Any], Any], params: Any) -> Model:
    """A PyTorch function as a loss: ``loss(params, batch)`` is the mean loss of one client's batch.
    ``params`` is a module, or a dictionary of tensors by name; the function gets a dictionary,
    which ``torch.func.functional_call(module, params, inputs)`` takes.

    It is differentiated and mapped over clients and repetitions by ``torch.func``, in the precision
    of ``params``.
    """
    import torch

    if isinstance(params, torch.nn.Module):
        params = dict(params.named_parameters())
    if not isinstance(params, Mapping) or not params:
        found = type(params).__name__
        raise _native.InputError(f"params: found a {found}; needed: a module, or tensors by name")
    shapes = {name: tensor.shape for name, tensor in params.items()}
    sizes = [shape.numel() for shape in shapes.values()]
    start = torch.cat([tensor.detach().reshape(-1) for tensor in params.values()])

    def unflatten(theta: Any) -> dict[str, Any]:
        parts = torch.split(theta, sizes)
        return {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts)}

    def alone(theta: Any, batch: Any) -> Any:
        return loss(unflatten(theta), batch)

    def tensor(array: Any) -> Any:
        made = torch.as_tensor(array)
        return made.to(start.dtype) if made.is_floating_point() else made

    mapped = torch.func.vmap(torch.func.grad_and_value(alone))

    def judge(theta: np.ndarray, batch: Any) -> tuple[Any, Any]:
        gradients, values = mapped(tensor(theta), torch.utils._pytree.tree_map(tensor, batch))
        return values.detach().numpy(), gradients.detach().numpy()

    made = (torch_model, (loss, {name: tensor.detach() for name, tensor in params.items()}))
    return Model(start.numpy(), judge, lambda theta: unflatten(tensor(theta)), made)
