"""The recipes as a course: their cards, and on the screen that shows one its words, what to try,
and the next.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from html import escape

import numpy as np
import streamlit as st

from spmd_core.base import capital, mesh_text, seconds_text
from spmd_core.experiment import Experiment, screen_of
from spmd_core.plan import Plan, remat_words
from spmd_core.recipes import FEATURED, RECIPES, Recipe, groups, recipe_of, variations
from spmd_core.script import program_text
from spmd_core.terms import chip_title
from spmd_core.time import estimate_step
from spmd_core.words import KINDS, part_kind, parts
from spmd_lab.ui import state
from spmd_lab.ui.cards import page_of, query
from spmd_lab.ui.charts import colors, glimpse
from spmd_lab.ui.markdown import plain

# Streamlit marks links to the open screen; here they lead to another experiment on it, and should
# look like those that leave it.
_STYLE = """<style>
.st-key-recipe [data-testid="stPageLink-NavLink"] { background: transparent; padding-left: 0; }
.st-key-recipe [data-testid="stPageLink-NavLink"] p { font-weight: 500; text-decoration: underline; text-underline-offset: 0.2em; }
</style>"""


FIRST = "Start here"  # the level of those to begin with
_ACROSS = 4  # cards in a row
_MANY_ALIKE, _CALLED = 3, 2  # small programs that are lines; calls that a line names
_ALSO = {  # other names of what recipes are about, as `_plain` writes theirs
    "moe": "mixture of experts",
    "a2a": "alltoall",
    "ragged": "mixture of experts",  # whose tokens are dispatched in ragged groups
    "reducescatter": "fsdp",  # which scatters the sums of gradients
    "psumscatter": "fsdp",
    "ring": "sequence",
    "zero": "fsdp",
    "dp": "data",
    "tp": "tensor",
}
# words of questions, which no recipe is about
_SKIPPED = re.compile(
    "a|an|and|are|best|can|do|does|for|how|i|in|is|it|my|of|on|or|parallel|parallelism|should|the|"
    "to|use|what|when|where|which|why|with"
)


# screens outside of the course: a label, and words of a search that lead there
_ELSEWHERE = {
    "programs": (
        "Open your own jax.export file on Programs",
        re.compile("export|jit|ci|file|code"),
    ),
    "collectives": ("Time a collective", re.compile("bandwidth|latency|gbps|calibrat|nccl|speed")),
    "search": ("Find a sharding", re.compile("search|tune|tuning|fastest|optimal")),
}


@cache
def _varied_by_id() -> Mapping[str, Recipe]:
    return {variations.variation_of(recipe).id: recipe for recipe in RECIPES.values()}


def followed(recipe: Recipe) -> Sequence[str]:
    """Returns the recipes among which one has its place: those to begin with, where Recipes showed
    them last, else the course.
    """
    is_path = recipe.name in FEATURED and state.aside("recipes", "level") == FIRST
    return FEATURED if is_path else tuple(RECIPES)


def position(recipe: Recipe) -> int:
    """The recipe's place among those that are followed, from 1."""
    return followed(recipe).index(recipe.name) + 1


def neighbors(recipe: Recipe) -> tuple[Recipe | None, Recipe | None]:
    """The recipes before and after one."""
    names, place = followed(recipe), position(recipe)
    before, after = names[: place - 1][-1:], names[place:][:1]
    return next(map(RECIPES.get, before), None), next(map(RECIPES.get, after), None)


def elsewhere(words: str, of_level: str) -> None:
    """Draws that no recipe has these words, and the screens outside of the course that they ask for;
    where there are none, a button for each topic of recipes.
    """
    none = f"No recipe{of_level} has the words “{words}”."
    asked = [screen for screen, (_, asks) in _ELSEWHERE.items() if asks.search(words.lower())]
    if not asked:
        st.markdown(plain(f"{none} Recipes are about:"))
        with st.container(horizontal=True, gap="small", key="topics"):
            for at, topic in enumerate(groups()):
                st.button(
                    plain(topic),
                    key=f"topic:{at}",
                    on_click=st.session_state.update,
                    args=({"search": topic},),
                )
        return
    st.markdown(plain(f"{none} Not in the course, but here:"))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for screen in asked:
            rank = "main" if screen == asked[0] else "side"
            with st.container(key=f"{rank}-link-{screen}", width="content"):
                st.page_link(f"pages/{screen}.py", label=f"**{plain(_ELSEWHERE[screen][0])}**")


def matching(words: str, groups: Collection[str] | None = None) -> tuple[Recipe, ...]:
    """The recipes of these groups (of all where it is None) that have these words in their name, title,
    group or text, or communicate by them; where none has all, those with the rarest. Case, hyphens
    and underscores do not count, nor the other words of a question.
    """
    asked = _plain(words).strip("?!. ").split()
    wanted = [_ALSO.get(word, word) for word in asked if not _SKIPPED.fullmatch(word)] or asked
    having = {word: [name for name, text in _texts().items() if word in text] for word in wanted}
    scores = {
        recipe.name: sum(1 / len(names) for names in having.values() if recipe.name in names)
        for recipe in RECIPES.values()
        if groups is None or recipe.group in groups
    }
    best = max(scores.values())
    return tuple(RECIPES[name] for name in scores if scores[name] == best > 0 or not wanted)


def _plain(text: str) -> str:
    return text.lower().replace("-", "").replace("_", "")


@cache
def _texts() -> Mapping[str, str]:
    return {name: _plain(" ".join(_parts(recipe))) for name, recipe in RECIPES.items()}


def _parts(recipe: Recipe) -> tuple[str, ...]:
    kinds = sorted({kind for each in recipe.expected.collectives.values() for kind in each})
    return (recipe.name, recipe.title, recipe.group, recipe.look_at, recipe.why, *kinds)


def varied(experiment: Experiment, last: str | None) -> Recipe | None:
    """The recipe that an experiment was made from: the one that names it as a variation, or the one
    opened last, of the same workload.
    """
    if experiment.id in _varied_by_id():
        return _varied_by_id()[experiment.id]
    if experiment.variants:  # a study is an experiment of its own
        return None
    recipe = RECIPES.get(last or "")
    if recipe is None or recipe.experiment.workload != experiment.workload:
        return None
    return recipe if _program(recipe.experiment) == _program(experiment) else None


def _program(experiment: Experiment) -> object:
    return dict(experiment.options).get("program")


def hint(experiment: Experiment, is_answered: bool = True) -> None:
    """Where a link opened a recipe: its question, what to try, and its neighbors; once it is
    answered, what to look at, and why it is so. Where the screen shows a change to one: the way
    back. Nothing above fields that happen to be those of a recipe.
    """
    screen = screen_of(experiment)
    recipe, last = recipe_of(experiment), state.aside(screen, "recipe")
    changed = varied(experiment, last) if recipe is None else recipe
    if changed is None or (changed.name != last and not state.is_linked(screen, experiment)):
        return
    if recipe is None:
        _variation(changed)
        return
    state.set_aside(screen, "recipe", recipe.name)
    before, after = neighbors(recipe)
    st.html(_STYLE)
    with st.container(border=True, key="recipe"):
        names = followed(recipe)
        part = FIRST if names == FEATURED else recipe.group
        place = f"recipe {position(recipe)} of {len(names)}, {plain(part)}"
        takes = f", takes {plain(recipe.takes)}" if recipe.takes else ""
        st.markdown(f":material/menu_book: **{plain(recipe.title)}** :gray[:small[{place}{takes}]]")
        if is_answered:
            if not experiment.what.is_small_program or recipe.is_of_times:  # else it is the answer
                st.markdown(f"**Look at:** {plain(recipe.look_at)}")
            with st.expander("Why, and what a change does", key="recipe-why"):
                _why(recipe)
        else:
            st.caption("Press Run: then it shows what to look at, and why.")
        _neighbors(recipe, before, after)


def _why(recipe: Recipe) -> None:
    st.markdown(f":small[{plain(recipe.why)}]")
    here = recipe.numbers(variations.variation_of(recipe))
    labels = ("By the estimate", variations.VARIATIONS[recipe.name].words)
    for label, line in zip(labels, here, strict=False):
        st.markdown(f"**{plain(capital(label))}:** {plain(line)}")


def _neighbors(recipe: Recipe, before: Recipe | None, after: Recipe | None) -> None:
    _link(
        f"Try: {variations.VARIATIONS[recipe.name].words}",
        variations.variation_of(recipe),
        ":material/tune:",
    )
    with st.container(horizontal=True, horizontal_alignment="distribute", gap="small"):
        if before:
            _link(f"Previous: {before.title}", before.experiment, ":material/arrow_back:")
        if after:
            _link(f"Next: {after.title}", after.experiment, ":material/arrow_forward:")
        else:
            st.page_link(
                "pages/recipes.py",
                label="The end: all recipes",
                icon=":material/menu_book:",
            )


def _variation(recipe: Recipe) -> None:
    after = neighbors(recipe)[1]
    st.html(_STYLE)
    with st.container(border=True, key="recipe"):
        st.markdown(
            f":material/tune: A variation of recipe {position(recipe)}, **{plain(recipe.title)}**"
        )
        with st.container(horizontal=True, horizontal_alignment="distribute", gap="small"):
            _link("Back to it as it stands", recipe.experiment, ":material/undo:")
            if after:
                _link(f"Next: {after.title}", after.experiment, ":material/arrow_forward:")


def _link(words: str, experiment: Experiment, icon: str) -> None:
    st.page_link(
        page_of(experiment),
        label=plain(words),
        icon=icon,
        query_params=query(experiment),
        width="content",
    )


def _order(part: str) -> int:
    return [*colors.KINDS].index(part_kind(part))


def _steps(plan: Plan, other: Plan) -> str:
    """The picture of a training step beside its variation: the memory of each where one does not fit,
    else what its time for as many tokens goes to.
    """
    steps = {each: estimate_step(each) for each in (plan, other)}
    per_token = {
        each: step.predicted_s.estimate / each.tokens if step.predicted_s else 0.0
        for each, step in steps.items()
    }
    is_fit, rows = steps[plan].fits != steps[other].fits, []
    of_hbm = {
        each: (step.memory_bytes.peak or 0) / step.memory_bytes.capacity
        for each, step in steps.items()
    }
    most = max(1.0, *of_hbm.values())
    for each, step in steps.items():
        held = of_hbm[each]
        wide = per_token[each] / max(per_token.values())
        spans = "".join(
            f'<i style="flex: {seconds:.4g}; background: {colors.KINDS[part_kind(part)]}"></i>'
            for part, seconds in sorted(parts(step).items(), key=lambda each: _order(each[0]))
        )
        bar = f'<i class="spans" style="width: {wide:.0%}">{spans}</i>'
        words, over = next(w(each) for w in _DIFFERS if w(plan) != w(other)), " over" * (held > 1)
        time = f"{words}: {seconds_text(per_token[each])}/token"
        words = f"{words}: {held:.0%} of HBM" if is_fit else time
        if is_fit:
            limit = f'<i class="limit" style="left: {1 / most:.0%}">{_LIMIT * (not rows)}</i>'
            bar = f'<i style="width: {held / most:.0%}"></i>{limit}'
        rows.append(f'<small>{escape(words)}</small><i class="gauge{over * is_fit}">{bar}</i>')
    return f'<div class="fit">{"".join(rows)}</div>'


_LIMIT = "<small>100%</small>"  # at the first of the bars
# what a variation may change, in a few words
_DIFFERS: tuple[Callable[[Plan], str], ...] = (
    lambda plan: f"{plan.devices} chips",
    lambda plan: f"{plan.sequence:,} tokens",
    lambda plan: mesh_text(plan.mesh, " "),
    lambda plan: f"remat {remat_words(plan.remat, plan.save, ())}",
    lambda plan: f"{', '.join(plan.offload) or 'nothing'} offloaded",
)
# calls of JAX in a program, and arguments that change what they do
_CALLS = re.compile(
    r"\bjax\.(?:\w+\.)*(\w+)\(|\b((?:in_axes|out_axes|axis_size|\w*argnums|out_shardings)=)"
)
_USUAL = {"make_mesh", "block_until_ready", "devices", "device_put", "map", "leaves"}
_COLLECTIVES = {"psum", "pmean", "pmax", "all_gather", "all_to_all", "ppermute", "psum_scatter"}
_MOST_ROWS, _SAME = 8, "#a9b4c2"  # devices that are drawn; the color of what all have


@cache
def _called(one: Experiment) -> tuple[tuple[str, ...], str]:
    """Returns what a small program calls of JAX, and the first of its collectives, "" without one."""
    pairs = _CALLS.findall(program_text(one, one.strategies[0]))
    names = [*dict.fromkeys(str("".join(each)) for each in pairs)]
    sent = next((each for each in names if each in _COLLECTIVES), "")
    return tuple(each for each in names if each != sent and each not in _USUAL), sent


@cache
def _flow(one: Experiment) -> str:
    """The picture of a small program: rows on devices, what it calls, and what each device has then:
    its own rows, or the same as every other after a collective.
    """
    others, sent = _called(one)
    named = f"{others[0]}(…)".replace("=(…)", "=…") if others else ""
    many = min(one.device_count, _MOST_ROWS)
    shades, high = colors.colors(np.arange(many), many), 100.0 / many
    wide = 60.0
    rows = [
        glimpse.rect(left, at * high, wide, high, shades[at] if left == 0 or not sent else _SAME)
        for left in (0.0, 3.6 * wide)
        for at in range(many)
    ]
    words = named, sent and f"{sent}(…)"
    font = min(20.0, 2.6 * wide / (3.4 + 0.56 * max(map(len, words))))  # words end before the head
    arrow = glimpse.arrow(wide, 3.6 * wide, 100.0, font, *words)
    drawn = glimpse.drawing(4.6 * wide, 100.0, [*rows, *arrow], True)
    about = f"{many} devices, {', '.join(filter(None, (named, sent)))}"
    return glimpse.image(drawn, about, "glimpse")


def _shards(recipe: Recipe) -> str:
    """The picture of a computation, with the collective that the compiler is expected to write."""
    if recipe.experiment.what.is_small_program:
        return _flow(recipe.experiment)
    expected = recipe.expected.collectives.values()
    kind = min((kind for kinds in expected for kind in kinds), default="")
    drawn = glimpse.svg(recipe.experiment, kind)
    return glimpse.image(drawn, glimpse.alt(recipe.experiment, kind), "glimpse")


def key() -> None:
    """Draws what the colors of steps are, for the pictures below."""
    parts_ = (
        f'<li><i style="background: {colors.KINDS[kind]}"></i>{KINDS[kind]}</li>'
        for kind in ("matmul", "kernel", "memory", "exposed")
    )
    st.html(f'<div class="split"><ul><li>Predicted:</li>{"".join(parts_)}</ul></div>')


def listed(recipes: Sequence[Recipe], done: Collection[str], among: Sequence[Recipe]) -> None:
    """Draws cards, and below them as lines the small programs, whose pictures are alike, where many
    are `among` those of the screen.
    """
    is_many = sum(each.experiment.what.is_small_program for each in among) >= _MANY_ALIKE
    alike = [each for each in recipes if is_many and each.experiment.what.is_small_program]
    gallery([each for each in recipes if each not in alike], done)
    if not alike:
        return
    with st.container(key=f"alike-{alike[0].name}", gap=None):
        for recipe in alike:
            others, sent = _called(recipe.experiment)
            called = [each.rstrip("=") for each in (*others[:_CALLED], sent) if each]
            facts = plain(", ".join(called) + " · " * bool(called))
            st.page_link(
                f"pages/{recipe.screen}.py",
                label=f"**{plain(recipe.title)}** {facts}{_takes(recipe, done)}",
                query_params=query(recipe.experiment),
                help=plain(_about(recipe)),
                width="stretch",
            )


def gallery(recipes: Sequence[Recipe], done: Collection[str], is_path: bool = False) -> None:
    """A card for each recipe: its picture, its question, which opens it, and how long it takes or
    that it ran. `done` has the ids of experiments that ran to their end on this machine. `is_path`:
    with numbers.
    """
    for row in range(0, len(recipes), _ACROSS):
        with st.container(key=f"gallery-{'path-' * is_path}{recipes[row].name}"):
            columns = st.columns(_ACROSS)
            for at, recipe in enumerate(recipes[row : row + _ACROSS]):
                with columns[at].container(border=True, height="stretch"):
                    plan, other = recipe.experiment.plan, variations.variation_of(recipe).plan
                    st.html(_steps(plan, other) if plan and other else _shards(recipe))
                    st.page_link(
                        f"pages/{recipe.screen}.py",
                        label=f"**{plain(f'{at + 1}. ' * is_path + recipe.title)}**",
                        query_params=query(recipe.experiment),
                        help=plain(_about(recipe)),
                    )
                    of = f" · {plain(_model_words(plan))}" if plan else ""
                    st.caption(f"{_takes(recipe, done)}{of}")


def _takes(recipe: Recipe, done: Collection[str]) -> str:
    """Returns how long a recipe takes, on one scale, or that it ran, as Markdown."""
    if recipe.experiment.id in done:
        return ":material/check: Done"
    if recipe.screen == "layout" or (recipe.screen == "predict" and not recipe.takes):
        return ":material/bolt: At once"
    return f":material/play_arrow: {'A minute' if ' min' in recipe.takes else 'Seconds'}"


def _about(recipe: Recipe) -> str:
    """Returns why the answer is as it is, after the model and chips of a plan."""
    plan = recipe.experiment.plan
    return f"{_model_words(plan)}. {recipe.why}" if plan else recipe.why


def _model_words(plan: Plan) -> str:
    chips = f"{plan.topology.chips} {chip_title(plan.topology.chip.generation)}"
    return f"{plan.model} on {chips}, {plan.batch:,} × {plan.sequence:,} tokens"
