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


STEP_S = 0.005
"""The shortest step: a quicker engine hands over several tokens at once, as with speculation or steps in a row."""


class Stamped(SimEngine):
    """Makes `max_tokens` tokens at `sim_decode_per_s`, each the monotonic time (s) at which its step was due.

    The times are a schedule: a loop that comes late finds several steps due, as from an engine with a thread of its
    own, and their lateness counts.
    """

    async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
        """Yields what is due whenever it wakes up."""
        per_s = self._config.sim_decode_per_s
        at_once = max(1, round(per_s * STEP_S))
        began, step_s, said = time.monotonic(), at_once / per_s, 0
        while said < request.max_tokens:
            await asyncio.sleep(max(0.0, began + said / per_s - time.monotonic()))
            steps = 1 + math.floor((time.monotonic() - began) / step_s)
            due = min(request.max_tokens, steps * at_once)
            if due > said:
                yield Delta(text="".join(f"{began + at // at_once * step_s:.6f} " for at in range(said, due)))
                said = due
        usage = Usage(prompt_tokens=len(prompt_tokens(request.messages)), completion_tokens=said)
        yield End(finish_reason="stop", usage=usage)


if __name__ == "__main__":
    KINDS[KIND] = "loadtest.stamped:Stamped"
    main("worker")
