"""Coroutines in tests that share their process with tests of a browser."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def finished(request: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns, run in a thread of its own: a browser's tests leave an event loop
    in theirs, whichever process they are in.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, request).result()
