"""Another model, where an agent's own can't answer: never in a turn that has acted or spoken."""

import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence

from shared.agents.base import Acted, Failed, ProviderEvent, Text
from shared.core import logs
from shared.core.failures import FailureCode

log = logs.get()

ELSEWHERE: frozenset[FailureCode] = frozenset({"overloaded", "model_not_found", "rate_limited"})
"""The failures that another model may not have."""

Run = Callable[[str | None], AsyncGenerator[ProviderEvent, None]]
"""Runs the turn with a model; None: the provider's own."""

Cause = Callable[[Failed], FailureCode]
"""What a failure really was, because the gateway knows better than a program."""


async def run(
    run_with: Run, models: Sequence[str | None], *, cause: Cause, has_spoken: Callable[[], bool], agent: str
) -> AsyncGenerator[ProviderEvent, None]:
    """What happens with the first of *models* that answers; the failure of the last one where none does."""
    for model, following in zip(models, [*models[1:], None], strict=True):
        is_last = following is None
        has_acted = False
        async with contextlib.aclosing(run_with(model)) as provider_events:
            async for event in provider_events:
                has_acted = has_acted or isinstance(event, Acted | Text)
                if isinstance(event, Failed) and not (is_last or has_acted or has_spoken()):
                    code = cause(event)
                    if code in ELSEWHERE:
                        log.warning("model.fallback", agent=agent, model=model, why=code, next=following)
                        break
                yield event
            else:
                return
