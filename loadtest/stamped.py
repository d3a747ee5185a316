"""A worker whose simulator writes into each token when it was due, so that a reader sees how old it is.

`python -m loadtest.stamped` takes the options of `python -m hasten.worker`; its engine is `kind = "stamped"`.
"""

import asyncio
import math
import time
from collections.abc import AsyncGenerator

from hasten.messages.chat import Usage
from hasten.messages.generate import Generate
from hasten.run import main
from hasten.worker.engines import KINDS, Delta, End
from hasten.worker.engines.sim import SimEngine, prompt_tokens

KIND = "stamped"


class Stamped(SimEngine):
    """Makes `max_tokens` tokens at `sim_decode_per_s`, each the monotonic time (s) at which it was due.

    The times are a schedule: a loop that comes late finds several tokens due, as from an engine with a thread of its
    own, and their lateness counts.
    """

    async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
        """Yields what is due whenever it wakes up."""
        began, step, said = time.monotonic(), 1 / self._config.sim_decode_per_s, 0
        while said < request.max_tokens:
            await asyncio.sleep(max(0.0, began + said * step - time.monotonic()))
            due = min(request.max_tokens, 1 + math.floor((time.monotonic() - began) / step))
            if due > said:
                yield Delta(text="".join(f"{began + at * step:.6f} " for at in range(said, due)))
                said = due
        usage = Usage(prompt_tokens=len(prompt_tokens(request.messages)), completion_tokens=said)
        yield End(finish_reason="stop", usage=usage)


if __name__ == "__main__":
    KINDS[KIND] = "loadtest.stamped:Stamped"
    main("worker")
