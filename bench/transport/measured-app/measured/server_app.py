"""The ServerApp behind a grid that keeps account: a line for every round that is sent, with the CPU
seconds so far of fedback, of Flower's grid, and of the whole process."""

import json
import threading
import time
from functools import wraps

from flwr.serverapp import ServerApp

from fedback.flower import server_app

app = ServerApp()


class Account:
    """A grid; what is spent in it is Flower's, the rest of its thread, and of the main one,
    fedback's."""

    def __init__(self, grid):
        self._grid = grid
        self._main = time.pthread_getcpuclockid(threading.get_ident())
        self._began = self._flower = 0.0
        self.lines, self._round = [], ""

    def __getattr__(self, name):
        method = getattr(self._grid, name)

        @wraps(method)
        def timed(*args):
            started = time.thread_time()
            try:
                found = method(*args)
                return list(found) if name == "pull_messages" else found
            finally:
                self._flower += time.thread_time() - started

        return timed

    def push_messages(self, messages):
        messages = list(messages)
        if messages[0].metadata.group_id != self._round:
            self._round = messages[0].metadata.group_id
            self._note()
        return self.__getattr__("push_messages")(messages)

    def _note(self):
        ours = time.thread_time() + time.clock_gettime(self._main) - self._flower
        spent = {"fedback": ours, "grid": self._flower, "process": time.process_time()}
        self.lines.append({"round": self._round, "wall": time.time(), **spent})


@app.main()
def main(grid, context):
    account = Account(grid)
    server_app.main(account, context)
    with open(context.run_config["measured"], "w", encoding="ascii") as out:
        out.writelines(json.dumps(line) + "\n" for line in account.lines)
