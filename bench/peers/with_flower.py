"""P-FedAvg in a Flower simulation: its FedAvg strategy, clients in Ray's workers.

Times are on the wall, since the work is done in other processes; Ray's start is not counted.
"""

import sys
import time

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from problem import load, serve, work

folder = sys.argv[1]
client_app, server_app = ClientApp(), ServerApp()


@client_app.train()
def train(message, context):
    problem, config = load(folder), message.content["config"]
    client, round = context.node_config["partition-id"], config["server-round"]
    steps = (round - 1) * problem.local_steps + np.arange(problem.local_steps)
    rng = np.random.default_rng([config["seed"], round, client])
    theta = message.content["arrays"]["theta"].numpy()
    local = work(problem, client, theta, problem.beta / (steps + problem.gamma), rng)
    weight = MetricRecord({"num-examples": float(problem.weights[client])})
    arrays = ArrayRecord({"theta": Array(local)})
    return Message(RecordDict({"arrays": arrays, "metrics": weight}), reply_to=message)


@server_app.main()
def main(grid, context):
    def prepare(problem):
        clients = problem.clients
        strategy = FedAvg(
            fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients
        )

        def one(seed, rounds):
            start = ArrayRecord({"theta": Array(np.zeros(problem.dim))})
            config = ConfigRecord({"seed": seed})
            result = strategy.start(grid, start, num_rounds=rounds, train_config=config)
            return result.arrays["theta"].numpy()

        def run(seed, rounds, repetitions):
            return [one(1000 * seed + repetition, rounds) for repetition in range(repetitions)]

        run(0, 1, 1)  # starts the workers
        return run

    serve(prepare, "flwr", "ray", clock=time.perf_counter)


run_simulation(
    server_app,
    client_app,
    num_supernodes=load(folder).clients,
    backend_config={
        "init_args": {"num_cpus": 1, "include_dashboard": False, "log_to_driver": False},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    },
)
