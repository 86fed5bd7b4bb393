"""P-FedAvg in pfl: an algorithm of our own on the simulated backend, with a NumPy model."""

import itertools

import numpy as np
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import FederatedAlgorithm
from pfl.common_types import Population
from pfl.context import CentralContext
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.metrics import Metrics
from pfl.model.base import Model
from pfl.stats import MappedVectorStatistics
from problem import serve, step_sizes, work


class Theta(Model):
    def __init__(self, dim):
        self.value = np.zeros(dim)

    def apply_model_update(self, statistics):
        self.value = self.value + statistics["delta"]
        return self, Metrics()


class Averaging(FederatedAlgorithm):
    def __init__(self, problem, rounds, seed):
        super().__init__()
        self.problem, self.sizes = problem, step_sizes(problem, rounds)
        self.rng = np.random.default_rng(seed)

    def get_next_central_contexts(self, model, iteration, *_):
        if iteration == len(self.sizes):
            return None, model, Metrics()
        context = CentralContext(
            current_central_iteration=iteration,
            do_evaluation=False,
            cohort_size=self.problem.clients,
            population=Population.TRAIN,
            algorithm_params=None,
            model_train_params=None,
        )
        return (context,), model, Metrics()

    def simulate_one_user(self, model, user_dataset, central_context):
        client = user_dataset.user_id
        sizes = self.sizes[central_context.current_central_iteration]
        delta = work(self.problem, client, model.value, sizes, self.rng) - model.value
        weight = self.problem.weights[client]
        return MappedVectorStatistics({"delta": weight * delta}, weight), Metrics()

    def process_aggregated_statistics(self, central_context, aggregate_metrics, model, statistics):
        statistics.average()
        return model.apply_model_update(statistics)


def prepare(problem):
    datasets = [Dataset((np.zeros(1),), user_id=client) for client in range(problem.clients)]

    def one(seed, rounds):
        order = itertools.cycle(range(problem.clients))
        data = FederatedDataset(lambda client: datasets[client], lambda: next(order))
        backend = SimulatedBackend(training_data=data, val_data=data)
        algorithm = Averaging(problem, rounds, seed)
        model = algorithm.run(None, backend, Theta(problem.dim), None, send_metrics_to_platform=False)
        return model.value

    def run(seed, rounds, repetitions):
        return [one([seed, repetition], rounds) for repetition in range(repetitions)]

    return run


serve(prepare, "pfl")
