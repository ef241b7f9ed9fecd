"""Sessions whose connection has ended: Streamlit keeps each for its browser to come back, with its
uploads and three descriptors, and drops it only when another one ends.
"""

import asyncio
import time

from streamlit import runtime

KEPT_S = 20.0  # for a browser whose connection was interrupted
_LOOK_S = KEPT_S / 2
# (session, the entry that its last connection left) -> since when it is closed
_closed: dict[tuple[str, int], float] = {}
_timers: list[asyncio.TimerHandle] = []  # the one that looks next


def let_go() -> None:
    """Let go of the uploads of closed sessions at once, and of sessions that have been closed for
    `KEPT_S`. Call it where a connection or an upload has ended.
    """
    if not runtime.exists():
        return
    here, now = runtime.get_instance(), time.monotonic()
    uploaded = here.uploaded_file_mgr
    for session in list(getattr(uploaded, "file_storage", ())):
        if not here.is_active_session(session):
            uploaded.remove_session_files(session)
    known = {(each.session.id, id(each)) for each in here._session_mgr.list_sessions()}
    closed = {each for each in known if not here.is_active_session(each[0])}
    for each in _closed.keys() - closed:
        del _closed[each]
    for each in closed:
        if now - _closed.setdefault(each, now) >= KEPT_S:
            here.close_session(each[0])
    if closed and not _timers:
        _timers.append(asyncio.get_running_loop().call_later(_LOOK_S, _look))


def _look() -> None:
    _timers.clear()
    let_go()
