"""The ServerApp behind a grid that keeps account: a line for every round that is sent, with the CPU
seconds so far of fedback's loop, of looking for replies in vain, of the thread that watches for
Ctrl-C, and of the whole process."""

import json
import threading
import time
from functools import wraps

from flwr.serverapp import ServerApp

from fedback.flower import server_app

app = ServerApp()


class Account:
    """A grid; what is spent in it is Flower's, the rest of its thread, and of the main one,
    fedback's. From a look that found nothing to the next one, fedback waits."""

    def __init__(self, grid):
        self._grid = grid
        self._main = time.pthread_getcpuclockid(threading.get_ident())
        self._flower = self._idle = 0.0
        self._found_nothing: float | None = None
        self.lines, self._round = [], ""

    def __getattr__(self, name):
        method = getattr(self._grid, name)

        @wraps(method)
        def timed(*args):
            started = time.thread_time()
            if self._found_nothing is not None:
                self._idle += started - self._found_nothing
            found = method(*args)
            found = list(found) if name == "pull_messages" else found
            ended = time.thread_time()
            self._flower += ended - started
            self._found_nothing = ended if found == [] else None
            return found

        return timed

    def push_messages(self, messages):
        messages = list(messages)
        if messages[0].metadata.group_id != self._round:
            self._round = messages[0].metadata.group_id
            self._note()
        return self.__getattr__("push_messages")(messages)

    def _note(self):
        watching = time.clock_gettime(self._main)
        spent = {"fedback": time.thread_time() - self._idle - self._flower, "idle": self._idle}
        spent |= {"watching": watching, "process": time.process_time()}
        self.lines.append({"round": self._round, "wall": time.time(), **spent})


@app.main()
def main(grid, context):
    account = Account(grid)
    server_app.main(account, context)
    with open(context.run_config["measured"], "w", encoding="ascii") as out:
        out.writelines(json.dumps(line) + "\n" for line in account.lines)
