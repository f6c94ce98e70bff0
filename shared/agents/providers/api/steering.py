"""What the model of one turn is told between its requests."""

import asyncio


class ApiSteering:
    """Of one turn. A text waits for the next request; where none follows, it was not taken."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, asyncio.Future[bool]]] = []
        self._is_over = False

    @property
    def hears(self) -> bool:
        """Whether the turn runs."""
        return not self._is_over

    async def tell(self, text: str) -> bool:
        """Whether a request took it."""
        if self._is_over:
            return False
        taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((text, taken))
        return await taken

    def take(self) -> list[str]:
        """What the next request is to have, which goes out now."""
        waiting, self._waiting = self._waiting, []
        for _, taken in waiting:
            if not taken.done():
                taken.set_result(True)
        return [text for text, _ in waiting]

    def close(self) -> None:
        """No request follows."""
        self._is_over = True
        for _, taken in self._waiting:
            if not taken.done():
                taken.set_result(False)
