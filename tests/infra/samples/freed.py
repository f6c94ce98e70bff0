"""A function that is signalled while its loading frees an object, which swallows what the handler raises."""

import os
import signal

from tests.infra.samples.sample import lifespan
from tests.infra.samples.sample import sample as freed

__all__ = ["freed", "lifespan"]


class _Freed:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):  # Python handles a signal between two steps
            pass


del [_Freed()][0]
