import asyncio

import pytest

from shared.core.time.patience import Patience


def test_a_result_within_the_limit_is_the_result_and_an_error_the_error():
    async def go():
        patience = Patience(60)
        future = asyncio.get_running_loop().create_future()
        failing = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, 7)
        asyncio.get_running_loop().call_soon(failing.set_exception, LookupError("x"))
        return await asyncio.gather(patience.wait(future), patience.wait(failing), return_exceptions=True)

    result, error = asyncio.run(go())
    assert (result, type(error)) == (7, LookupError)


def test_each_wait_ends_at_its_own_limit():
    async def go():
        loop = asyncio.get_running_loop()
        patience, began = Patience(0.2), loop.time()
        ended = {}

        async def wait(name, after_s):
            await asyncio.sleep(after_s)
            with pytest.raises(TimeoutError):
                await patience.wait(loop.create_future())
            ended[name] = loop.time() - began

        done = loop.create_future()
        loop.call_later(0.05, done.set_result, None)
        await asyncio.gather(patience.wait(done), wait("first", 0), wait("second", 0.1))
        await wait("later", 0.1)
        return ended

    ended = asyncio.run(go())
    assert 0.2 <= ended["first"] < ended["second"]
    assert ended["second"] >= 0.3
    assert ended["later"] >= ended["second"] + 0.3


def test_a_caller_that_is_cancelled_is_waited_for_no_more():
    async def go():
        patience = Patience(0.05)
        waiting = asyncio.create_task(patience.wait(asyncio.get_running_loop().create_future()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.sleep(0.1)  # the timer finds nothing
        return waiting.cancelled()

    assert asyncio.run(go())
