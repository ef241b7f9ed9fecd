"""Query string to experiment, once per link; experiment to query string, after each valid edit; and
the box to copy it from.
"""

from collections.abc import Callable
from functools import partial
from urllib.parse import urlencode, urlsplit

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.base import RequestError, UnreadableRun, refuse, shorten
from spmd_core.experiment import (
    Experiment,
    check_compiles,
    check_fits_target,
    link,
    parse_experiment,
)
from spmd_core.machine import accelerator_files, default_target, get_topology
from spmd_core.pictures import is_product
from spmd_core.runs import check_memory
from spmd_lab.ui import choices, exports, state
from spmd_lab.ui.entrance import cookies
from spmd_lab.ui.lab import find, lab
from spmd_lab.ui.markdown import plain

_PENDING = "pending"  # an address that the browser does not show yet


def from_query(screen: str) -> None:
    """Take the address bar's experiment and run into the screen's state, once.

    A bad link leaves a notice, changes no field, and shows no result: it would be of something
    else.
    """
    query = (st.query_params.get("experiment", ""), st.query_params.get("run", ""))
    seen = _short(query[0]), _short(query[1])
    before = state.link(screen)
    if seen == before:
        return
    state.set_link(screen, seen)
    code, run = query[0], query[1] if choices.RUN_ID.fullmatch(query[1]) else None
    if not any(query):
        return
    # a link from a screen to itself: the browser takes up the query, but does not show it; a rerun
    # may come before the end of this one, where it is written
    if before is not None:
        state.set_aside(screen, _PENDING, True)
    try:
        if query[1] and run is None:
            raise refuse(f"run {shorten(query[1], 40)}", "is not the id of a run", "copy all of it")
        opened = _opened(screen, code, run)
    except RequestError as error:
        state.set_notice(screen, state.Notice(str(error), _nearest(screen, code)))
        state.set_run(screen, None)
        return
    if sentence := wrong_screen(screen, opened):
        state.set_notice(screen, state.Notice(sentence, elsewhere=opened))
        state.set_run(screen, None)
        return
    if opened != _shown(screen):
        state.replace(screen, opened, _best_variant(opened, run))
    state.set_aside(screen, "linked", opened.id)
    state.set_notice(screen, None)
    state.set_run(screen, run or _answer_here(screen, opened))


def _best_variant(opened: Experiment, run: str | None) -> int:
    """The index of the variant that is best in a run of a study: its picture is the answer's."""
    result = lab().result(run) if run and opened.variants else None
    if result is None or result.experiment != opened:
        return 0
    best = result.row(result.order[0]).variant
    return next((at for at, each in enumerate(opened.variants) if each.name == best), 0)


def _answer_here(screen: str, opened: Experiment) -> str | None:
    """The run that this visitor saw last on a screen, where it is of the experiment that an address
    without a run names: Back to these fields finds their answer.
    """
    for run in (state.run(screen), state.last_run(screen)):
        if run and (status := find(run)) and status.experiment == opened:
            return run
    return None


def _shown(screen: str) -> Experiment | None:
    try:
        return parse_experiment(state.study(screen))
    except RequestError:
        return None


def _opened(screen: str, code: str, run: str | None) -> Experiment:
    if code:
        return link.decode(code)
    stored = find(run) if run else None
    return stored.experiment if stored else state.experiment(screen)


def wrong_screen(screen: str, experiment: Experiment) -> str | None:
    """Why a screen cannot show an experiment; None where it can.

    Each screen draws the fields of some kinds of workload, and has none for the others.
    """
    if experiment.variants and screen != "compare":
        value, why = f"a study of {len(experiment.variants)} variants", _not_shown(screen)
    else:
        value, why = experiment.what.name, _unlike(screen, experiment)
    if why is None:
        return None
    return str(refuse(value, why, f"open it on {_screen_for(experiment).capitalize()}"))


def _unlike(screen: str, experiment: Experiment) -> str | None:
    what = experiment.what
    if bool(experiment.program) != (screen == "programs") and not experiment.variants:
        return _not_shown(screen)
    if screen == "layout" and not (what.is_bare_array or is_product(what)):
        return "is a computation, and Layout shows an array or one product"
    if screen == "compare" and not experiment.variants:
        if what.is_bare_array:
            return "is one array, and Compare runs computations"
        if what.compile_only:
            return "is only compiled, and Compare runs what it shows"
    if (screen == "collectives") != what.is_of_machine:
        return _not_shown(screen)
    if screen == "predict" and not what.results and not what.compile_only:
        return "has nothing that a compiler could predict"
    return None


def _not_shown(screen: str) -> str:
    return f"is not shown on {screen.capitalize()}"


def _screen_for(experiment: Experiment) -> str:
    what = experiment.what
    if experiment.variants:
        return "compare"
    if experiment.program:
        return "programs"
    if what.is_of_machine:
        return "collectives"
    if what.is_bare_array:
        return "layout"
    if what.compile_only:
        return "predict"
    if not what.results:
        return "compare"
    return link.screen_of(experiment)


def elsewhere(experiment: Experiment) -> tuple[str, dict[str, str]]:
    """The screen that shows an experiment, and the query of the link to it there."""
    try:
        return _screen_for(experiment), {"experiment": link.encode(experiment)}
    except RequestError:
        return _screen_for(experiment), {}


def _short(part: str) -> str:
    """A part of a query as it is remembered: junk of megabytes is not."""
    return part if len(part) < 4096 else str(hash(part))


def _nearest(screen: str, code: str) -> Experiment | None:
    try:
        nearest = link.nearest(link.payload(code))[0]
    except RequestError:
        return None
    return None if wrong_screen(screen, nearest) else nearest


def misfit(experiment: Experiment) -> state.Notice | None:
    """Why this machine cannot run an experiment, as far as is known without asking its devices, and
    the nearest that it can; None where it can.
    """
    for each in experiment.variants:
        if (notice := misfit(each.experiment)) is not None:
            return state.Notice(
                f"Variant {each.name}: {notice.sentence}", _adapted(experiment, None, None)
            )
    environment = lab().devices(experiment.target) if experiment.target == "local" else None
    count = environment.device_count if environment else None
    if experiment.target == "local" and environment is None and not accelerator_files():
        here = default_target()
        sentence = str(
            refuse(
                "target local",
                "means this machine's accelerators, and it has none",
                f"use {here}, or open this where one is",
            )
        )
        return state.Notice(sentence, _adapted(experiment, None, here) if here != "local" else None)
    if not (sentence := _misfit_words(experiment, count)):
        return None
    nearest = _adapted(experiment, count, None)
    if nearest and _misfit_words(nearest, count):  # of a program, which has one mesh
        nearest = None
    return state.Notice(sentence, nearest)


def refused_here(changed: Experiment) -> str:
    """Returns why this machine cannot run a changed experiment that has no nearest; "" where it can,
    and where there is one, which its screen offers.
    """
    notice = misfit(changed)
    return notice.sentence if notice and notice.nearest is None else ""


def _misfit_words(experiment: Experiment, count: int | None) -> str:
    try:
        if experiment.place.is_absent:
            check_fits_target(
                experiment.mesh, experiment.place, get_topology(experiment.place).devices
            )
            check_compiles(experiment.what, experiment.place)
        check_fits_target(experiment.mesh, experiment.place, count)
    except RequestError as error:
        return str(error)
    return ""


def too_large(experiment: Experiment) -> state.Notice | None:
    """Why the memory of this machine does not hold an experiment, as far as is known; None where it
    may.
    """
    try:
        check_memory(experiment, None, lab().hardware())
    except RequestError as error:
        return state.Notice(str(error))
    return None


def no_run(run: str, press: str) -> str:
    """The sentence on a run that a link names and this machine does not have, or cannot read."""
    try:
        lab().status(run)
    except UnreadableRun as error:
        return str(error)
    except RequestError:
        pass
    return (
        f"This machine has no run {run}: it was made on another one, or was deleted. "
        f"The fields are filled in as far as the link says: press {press} to compute it here, "
        "or import its archive on History."
    )


def _adapted(experiment: Experiment, count: int | None, target: str | None) -> Experiment | None:
    try:
        return link.nearest(experiment.to_json(), count, target)[0]
    except RequestError:
        return None


def write_query(screen: str, experiment: Experiment, run: str | None = None) -> None:
    """Write what the screen shows to the address bar; a sentence on what it chooses of an answer that
    is not there.
    """
    if run is None and "run" in st.query_params:  # what was chosen of its answer went with it
        for name in choices.UNBOUND:
            st.query_params.pop(name, None)
    if run is None and state.notice(screen) is None:
        choices.undrawn(screen)
    try:
        query = {"experiment": link.encode(experiment)} | ({"run": run} if run else {})
    except RequestError:
        return
    wanted = (query["experiment"], query.get("run", ""))
    if (
        state.aside(screen, _PENDING)
        or wanted != state.link(screen)
        or (st.query_params.get("experiment", ""), st.query_params.get("run", "")) != wanted
    ):
        state.set_link(screen, wanted)
        state.set_aside(screen, _PENDING, None)
        if run is None:
            st.query_params.pop("run", None)
        st.query_params.update(query)  # what widgets are bound to is theirs, and stays


def share_box(
    place: DeltaGenerator,
    screen: str,
    experiment: Experiment | None = None,
    run: str | None = None,
    file: Callable[[str], None] | None = None,
) -> None:
    """A button, at `place`, that opens the copyable link of this screen, and a file of its answer:
    of the run, else what `file` draws for the name of who sends it.
    """
    box = place.popover("Share", icon=":material/link:", key="share", on_change="rerun")
    if not box.open:  # made when it is opened: a viewer changes what it shows without the screen
        return
    with box:
        try:
            address = base_address(screen) + _address(screen, experiment, run)
        except RequestError as error:
            st.error(plain(str(error)))
            return
        with st.container(key="share-link"):
            st.code(address, language=None)
        st.caption("For whoever reaches this server. Opening a link never starts a computation.")
        if run is not None and lab().facts(run) is not None:
            file = partial(exports.run_page, run)
        if file:
            exports.sent(file)
        elif experiment is not None and screen in ("compare", "programs"):
            st.caption("A file that opens anywhere comes with a run: run or compile it first.")


def _address(screen: str, experiment: Experiment | None, run: str | None) -> str:
    """Path and query of what a screen shows, with the view of it that the address bar has."""
    if not experiment:
        return _page_path(screen)
    if run is None:
        link.check_flags(experiment)
    query = urlencode(
        {
            name: value
            for name in choices.READ[screen]
            if name not in ("experiment", "run")
            and (value := st.query_params.get(name, ""))
            and len(value) < 512
        }
    )
    return path(experiment, run, screen) + (f"&{query}" if query else "")


def path(experiment: Experiment | None, run: str | None, screen: str) -> str:
    """Path and query that open an experiment; by its run alone where no link may carry it."""
    if experiment is None:
        return ""
    try:
        return link.link_path(experiment, run, screen)
    except RequestError:
        return f"/{screen}?run={run}" if run else ""


def base_address(screen: str) -> str:
    """Scheme, host and base path in the address bar of the viewer's browser, which is at `screen`:
    a proxy may have removed a part of the path that the server never sees.
    """
    place = urlsplit(st.context.url or "http://localhost:8501/")
    folder = place.path.rstrip("/").removesuffix(f"/{screen}").rstrip("/")
    return f"{place.scheme}://{place.netloc}{folder}"


def _page_path(screen: str) -> str:
    shown = {name: value for name, value in st.query_params.items() if len(value) < 512}
    shown.pop(cookies.PARAMETER, None)  # it is for one browser
    query = urlencode(shown)
    return ("/" if screen == "overview" else f"/{screen}") + (f"?{query}" if query else "")
