"""Sentences of a search: the winner and its certainty, what was pruned, what to do next."""

from collections import Counter
from collections.abc import Sequence

from spmd_core.advice import held_bytes, program_of, replicated_words
from spmd_core.base import (
    bytes_change,
    bytes_text,
    capital,
    count_text,
    number_text,
    numbered,
    seconds_text,
)
from spmd_core.machine import compiler_refusal, get_topology
from spmd_core.search import (
    AS_EXPORTED,
    SAME,
    Answer,
    AnyQuestion,
    ArrayQuestion,
    Candidate,
    Goal,
    Proof,
    is_alone_beside,
    price_per_billion,
    score,
)
from spmd_core.surveys.search.beside import Own, as_exported, gain_words
from spmd_core.surveys.search.candidates import (
    STAGES,
    called_words,
    lead_name,
    memory_words,
    rule_words,
    span_of_tokens,
    time_of_tokens,
    time_words,
)
from spmd_core.terms import money_text
from spmd_core.words import compared, paired_words

_STATE_WORDS = {
    "pruned": "ruled out",
    "estimated": "only estimated",
    "compiled": "compiled",
    "measured": "measured",
    "failed": "failed",
    "not looked at": "not looked at",
}
_UNITS = ("a million calls", "a billion tokens")
TIME_TITLE = f"Time of {_UNITS[True]}"
READ_AGAIN = "The stored answer, while its estimates are read again:"
AGAIN = "Search again"
_NO_RULE = (
    "equal to another by renaming",
)  # reasons for pruning one candidate that do not explain why none is left


def goal_words(goal: Goal, of_model: bool) -> str:
    """What is minimized.

    >>> goal_words("time", True), goal_words("time", False), goal_words("memory", True)
    ('time of a billion tokens', 'time', 'memory per device')
    """
    if goal == "memory":
        return "memory per device"
    return f"{goal} of {_UNITS[True]}" if of_model else goal  # models' steps do different batches


def asked_words(question: AnyQuestion) -> str:
    """What a search is of: model or computation, chips, batch and sequence.

    >>> from spmd_core.search import read_question
    >>> asked_words(read_question({"model": "llama-3.1-8b", "chips": ["v5p:16"]}))
    'llama-3.1-8b on v5p:16, any batch, sequence 2,048'
    """
    if isinstance(question, ArrayQuestion):
        sizes = (f"{name}={size}" for name, size in question.sample.sizes.items())
        program = program_of(question.sample)
        of = program.described.name if program else question.sample.what.title
        return f"{of} on {', '.join((*question.targets, *sizes))}"
    batch = "any batch"
    if question.global_batch:
        batch = f"global batch {count_text(question.global_batch)}"
    elif question.batch_per_device:
        batch = f"{numbered(question.batch_per_device, 'sequence')} per device"
    where = ", ".join(question.chips)
    return f"{question.model} on {where}, {batch}, sequence {count_text(question.sequence)}"


def search_headline(answer: Answer) -> str:
    """The winner with its number and its certainty; or that no candidate can run, and which rule
    excludes them.
    """
    winner = answer.winner
    if winner is None:
        return nothing_left(answer)
    price, goal = dict(answer.question.price), answer.question.minimize
    least = minimized_words(winner, "price" if winner.step and price else goal, price)
    parts = [f"{winner.name}.", sure_words(answer), risk_words(answer)]
    return f"{time_words(winner)}{least and f', {least}'}: {' '.join(filter(None, parts))}"


def minimized_words(candidate: Candidate, goal: Goal, price: dict[str, float]) -> str:
    """The minimized quantity if it is neither the time nor the memory, else ""."""
    text = cost_text(candidate, goal, price)
    return f"{text} for {_UNITS[candidate.step is not None]}" if text else ""


def paid_goal(goal: Goal, has_price: bool, of_steps: bool) -> Goal:
    """Returns what the cost of a candidate is: its price too where the time of steps is minimized."""
    return "price" if goal == "time" and has_price and of_steps else goal


def cost_title(goal: Goal, of_steps: bool) -> str:
    """Returns the title of `cost_text`; "" for the time or the memory."""
    named: dict[Goal, str] = {"price": "Price", "chip-seconds": "Chip-seconds"}
    return f"{named[goal]} of {_UNITS[of_steps]}" if goal in named else ""


def cost_text(candidate: Candidate, goal: Goal, price: dict[str, float]) -> str:
    """The price or the chip-seconds of a billion tokens, or of a million calls; "" of the time and
    the memory.
    """
    if goal not in ("price", "chip-seconds"):
        return ""
    value = (1e9 if candidate.step else 1e6) * score(candidate, goal, price)
    return money_text(value) if goal == "price" else f"{number_text(value)} chip-seconds"


COST_TITLES = tuple(
    cost_title(goal, of_steps) for goal in ("price", "chip-seconds") for of_steps in (True, False)
)


def front_words(
    front: Sequence[Candidate], price: dict[str, float] | None = None, most: int = 6
) -> str:
    """The front of time against memory, or price, the fastest first; "" where there is none."""
    if not front:
        return ""
    if len(front) == 1:
        least = "costs the least" if price else "uses the least memory"
        stage = front[0].stage
        known = "" if stage == "estimated" else f" that is {stage}"
        known = f"{known} side by side" if front[0].study else known
        near = "" if stage == "measured" else f", within {SAME:.1%}"
        return f"The fastest{known} also {least}{near}: {called_words(front[0])}."
    costs = [
        minimized_words(each, "price", price) if price else bytes_text(each.memory_bytes)
        for each in front[:most]
    ]
    alike = len({each.tokens for each in front}) == 1
    text = "; ".join(
        f"{seconds_text(each.seconds) if alike else time_of_tokens(each)} with {cost}"
        for each, cost in zip(front, costs, strict=False)
    )
    more = f"; {len(front) - most} more" if len(front) > most else ""
    time = "time" if alike else "time of a billion tokens"
    return f"Front of {time} against {'price' if price else 'memory'}: {text}{more}."


def doing(answer: Answer, what: str, spent_s: float, budget_s: float | None = None) -> str:
    """The current phase of a search, its progress, and the time left, in one line. `budget_s`: which
    its last results, that are still stored, may exceed.
    """
    counts = answer.counts
    known = [
        f"{count_text(counts[state])} {STAGES[state]}"
        for state in ("measured", "compiled", "failed")
        if counts[state]
    ]
    looked = len(answer.found)
    is_quick = what != "estimating" or not answer.space  # all that will be are estimated
    of = "" if is_quick else f" of {count_text(answer.space)}"
    if budget_s:  # no forecast: it may end before
        left, spent_s = f" of at most {budget_s:.0f} s", min(spent_s, budget_s)
    elif looked:
        left = f", about {spent_s * (answer.space - looked) / looked:.0f} s left"
    else:
        left = ""
    parts = [f"{count_text(looked)}{of} looked at", *known]
    best = [f"best {time_words(answer.winner)}"] if answer.winner else []
    return f"{spent_s:.0f} s{left}: {what}, {', '.join([*parts, *best])}"


def sure_words(answer: Answer) -> str:
    """Returns how the winner compares with those that are known in the same way, and how many are
    only estimated.
    """
    winner = answer.winner
    if winner is None:
        return ""
    if (proof := answer.proof_of_winner) is not None:
        return " ".join(filter(None, (proof_words(proof), _estimates_words(answer))))
    if winner.stage == "estimated":
        how = "Estimated, not compiled"
        if answer.counts["compiled"]:
            how += ", yet ahead of all that was compiled even at its slowest"
        return f"{how}: {_compared_words(answer)}."
    known, runnable = answer.counts[winner.stage], _runnable(answer)
    if known == 1 < runnable:
        verdict = f"1 of {count_text(runnable)} {winner.stage}: nothing compared yet."
    else:
        how = {"measured": "Measured"}.get(winner.stage, "Predicted from the compiled program")
        verdict = f"{how}: {_compared_words(answer)}."
    return " ".join(filter(None, (verdict, _estimates_words(answer))))


def _runnable(answer: Answer) -> int:
    counts = answer.counts
    return sum(counts[state] for state in ("measured", "compiled", "estimated", "not looked at"))


def _compared_words(answer: Answer) -> str:
    winner, near, goal = answer.winner, answer.rivals, answer.question.minimize
    assert winner is not None
    alike = answer.counts[winner.stage]
    if _runnable(answer) == 1:
        return "nothing else can run"
    if winner.step and goal != "memory" and open_words(answer):
        return _could_words(answer)
    if not near:
        kind = "estimate" if winner.stage == "estimated" else f"of the {count_text(alike)}"
        kind += f" {winner.stage}" * (winner.stage != "estimated")
        return f"no other {kind} is as {'small' if goal == 'memory' else 'good'}"
    several = len(near) > 1
    others = _others(len(near), winner)
    if goal == "memory":
        return f"{others} {'use' if several else 'uses'} as little"
    good = "fast" if goal == "time" else "cheap"
    return f"{others} may be as {good}, since the intervals overlap"


def _could_words(answer: Answer) -> str:
    """How many other meshes and batches could win, by ranges that overlap that of the first."""
    many = _others(len(answer.open_numbers), answer.winner)
    return f"{many} could win, since the ranges overlap"


def _others(many: int, winner: Candidate | None) -> str:
    names = ("other", "others")
    if winner is not None and winner.step:
        names = ("other mesh or batch", "other meshes or batches")
    return f"{count_text(many)} {names[many > 1]}"


def _estimates_words(answer: Answer) -> str:
    """How many are only estimated beside a winner that is known better, and of arrays how many of
    them at less; "" where none is. Of plans `open_words` counts those that could win.
    """
    left, winner = answer.counts["estimated"], answer.winner
    if not left:
        return ""
    if winner is not None and winner.step and answer.question.minimize != "memory":
        return f"{count_text(left)} {'are' if left > 1 else 'is'} only estimated."
    less = {"time": "faster", "memory": "smaller"}.get(answer.question.minimize, "cheaper")
    ahead = count_text(answer.faster_estimates) if answer.faster_estimates else "none"
    verb = "are" if left > 1 else "is"
    of_them = (
        f", {ahead} of them to be {less}"
        if left > 1
        else f", {'' if ahead == '1' else 'not '}to be {less}"
    )
    by_range = ""
    if open_ := answer.open_estimates:
        by_range = "; by its range it could win"
        by_range = f"; by their ranges {count_text(open_)} could win" if left > 1 else by_range
    known = [f"{count_text(left)} {verb} only estimated{of_them}{by_range}."]
    if alone := len(answer.open_alone):
        known.append(f"{count_text(alone)} measured alone could win.")
    return " ".join(known)


def risk_words(answer: Answer) -> str:
    """What the winner of a model's search costs at the worst that its intervals allow, and whether
    a device holds it; "" of a computation.
    """
    winner = answer.winner
    if winner is None or winner.step is None or winner.span is None:
        return ""
    worst, capacity = winner.span[1], get_topology(winner.target).chip.device_hbm_bytes
    ends = [f"{seconds_text(worst)} a step"]
    price = price_per_billion(winner, dict(answer.question.price))
    if price is not None:
        ends.append(f"{money_text(price * worst / (winner.seconds or worst))} for a billion tokens")
    held = winner.memory_span[1] if winner.memory_span else winner.memory_bytes or 0
    by = "" if winner.memory_span else " by the compiler"
    ends.append(f"{bytes_text(held)} of the {bytes_text(capacity)} of a device{by}")
    if winner.host_bytes and winner.host_capacity_bytes:
        room = bytes_text(winner.host_capacity_bytes)
        ends.append(f"{bytes_text(winner.host_bytes)} of its {room} of host memory")
    return f"At worst {', '.join(ends[:-1])}, and {ends[-1]}."


def ahead_words(answer: Answer) -> str:
    """What is estimated to cost less than the winner and comes behind it, since it may not fit; ""
    of a computation, or where nothing is.
    """
    winner, question = answer.winner, answer.question
    if winner is None or winner.step is None or question.kind != "model":
        return ""
    goal, price = question.minimize, dict(question.price)
    mine = score(winner, goal, price)
    less = [
        entry
        for entry in answer.ranking
        if entry.score < mine and entry.candidate.stage == "estimated"
    ]
    likely = [entry for entry in less if entry.candidate.fits == "likely"]
    over = sum(1 + len(entry.alike) for entry in less if entry.candidate.fits == "unlikely")
    sentences = []
    if likely:
        share = 1 - min(entry.score for entry in likely) / mine
        sentences.append(
            f"Plans that may not fit take up to {share:.1%} less {goal_words(goal, False)}: compile "
            "them to know."
        )
    if over:
        sentences.append(
            f"{count_text(over)}{' others' if likely else ''} with a lower estimate are over the "
            "memory limit by it, and ranked last."
        )
    return " ".join(sentences)


def proof_words(proof: Proof) -> str:
    """The outcome of a run of the best few side by side, in the words of Compare."""
    rounds, count = numbered(proof.rounds, "shuffled round"), proof.best.processes
    where = "this process" if count == 1 else numbered(count, "process")
    together = f"{len(proof.numbers)} measured side by side in {rounds} in {where}"
    if proof.comparison.tied:
        return f"{proof_sentence(proof)} {together}."
    other = proof.best
    return (
        f"Proven against {other.strategy}: {seconds_text(proof.medians_s[other.strategy])}, "
        f"{paired_words(other)}. {together}."
    )


def verdict_words(answer: Answer) -> str:
    """How the best few of a computation compare, in short and by their names in words; as
    `sure_words` where nothing was measured side by side.
    """
    if (proof := answer.proof_of_winner) is None:
        return sure_words(answer)
    sentence = proof_sentence(proof, is_brief=True)
    for each in answer.found:
        if each.number in proof.numbers:
            sentence = sentence.replace(each.name, called_words(each))
    return sentence


def proof_sentence(proof: Proof, is_brief: bool = False) -> str:
    """How the best few compare, as Compare words it; `is_brief`: without the evidence."""
    margin = proof.experiment.timing.margin
    return compared(proof.comparison, proof.medians_s, margin=margin, is_brief=is_brief)


def proof_run_words(proof: Proof) -> str:
    """The run that proved it, for the command line."""
    return f"proof: run {proof.run}"


def nothing_left(answer: Answer) -> str:
    """Why no candidate can run: what failed, else which rule excludes them, with an example of its
    message.
    """
    looked, space = len(answer.found), count_text(answer.space)
    none = f"None of {space} candidates"
    if looked < answer.space:  # too many to estimate each
        none = f"None of the {count_text(looked)} looked at, of {space} candidates,"
    if answer.ranking:  # of which none is sure to fit
        first = answer.ranking[0].candidate
        return (
            f"{none} is sure to fit. {first.name} may, at "
            f"{time_words(first)} and {memory_words(first)}: compile it, use more chips, or a "
            "smaller batch."
        )
    if failed := [each for each in answer.found if each.stage == "failed"]:
        return (
            f"{none} can run: {count_text(len(failed))} "
            f"failed, the first of them {failed[0].name} ({rule_words(failed[0].detail).rstrip('.')})."
        )
    rules = {reason: count for reason, count in answer.pruned.items() if reason not in _NO_RULE}
    if not rules:
        return "Nothing was looked at yet."
    # of what keeps all that is fixed, where any is pruned
    reason, count = min(rules.items(), key=lambda each: each[0].startswith("excluded"))
    example = _example(answer, reason)
    allowed = getattr(answer.question, "memory_bytes", None)
    fix = {
        "does not fit": f"{'allow more memory, ' if allowed else ''}use more chips, or a smaller "
        "batch",
        "does not divide": "use a batch or sizes that divide over the devices",
        "not expressible under its strategy": "search other strategies too",
        "excluded by what is fixed": "fix fewer axes",
    }.get(reason, "fix less")
    because = f"is {reason}" if reason.startswith("excluded") else reason
    each = "each" if count == looked else f"of {count_text(count)} each"
    return f"{none} can run: {each} {because} ({example}). {capital(fix)}."


def _example(answer: Answer, reason: str) -> str:
    """The rule that most of what a reason prunes break; of memory that of the least."""
    pruned = [each for each in answer.found if each.reason == reason]
    held = [each for each in pruned if reason == "does not fit" and each.memory_bytes]
    if held:
        least = min(held, key=lambda each: each.memory_bytes or 0)
        return f"the least: {rule_words(least.detail)}"
    details = Counter(rule_words(each.detail) for each in pruned)
    return details.most_common(1)[0][0] if details else ""


def next_label(answer: Answer) -> str:
    """Returns what the button does that goes on with a search, in the words of `next_words`, or
    that repeats it where nothing can be added.
    """
    winner = answer.winner
    if winner is None or not next_words(answer):
        return AGAIN
    if winner.stage != "estimated":
        return f"Compile the next {answer.next_compiles}" if winner.step else "Keep searching"
    if compiler_refusal(winner.target):
        return AGAIN
    return f"Compile the best {answer.next_compiles}" if winner.step else "Keep searching"


def next_words(answer: Answer) -> str:
    """What would make the answer more certain; "" if nothing is left to do."""
    winner = answer.winner
    if winner is None:
        return ""
    if winner.stage == "estimated":
        if refusal := compiler_refusal(winner.target):
            return f"Not compiled: {refusal}."
        if not winner.step:
            return "Next: give it more seconds, and search on."
        few = answer.next_compiles
        each = "(a large model takes about a minute each)"
        return f"Next: compile the best {few} {each}." if few else ""
    if (
        winner.measured_s is not None
        and answer.proof_of_winner is None
        and answer.question.minimize != "memory"
    ):  # which is known, and needs no proof
        return "Next: search on, so that the best are measured side by side too."
    left = 0 if answer.complete else answer.counts["estimated"] + answer.counts["not looked at"]
    if winner.step:
        few = answer.next_compiles if left else 0
        return f"Next: search on, to compile the next {few}." if few else ""
    proof = answer.proof_of_winner
    alone = sum(is_alone_beside(winner, each.candidate, proof) for each in answer.ranking)
    counts = (left, "not measured"), (alone, "measured alone")
    open_ = " and ".join(f"{count_text(count)} {how}" for count, how in counts if count)
    return f"Next: give it more seconds, and search on: {open_} may still win." if open_ else ""


def stopped_words(answer: Answer, budget_s: float | None, is_few: bool) -> str:
    """Returns why a search of plans stopped compiling: it had compiled as many as it does at once, or
    its time was over, which may be before it compiled any; "" where it was to compile nothing.

    Args:
      budget_s: seconds that it had; None where that is not known.
      is_few: True if it compiled as many as it does at once.
    """
    compiled = answer.counts["compiled"]
    if answer.winner is None or answer.winner.step is None:
        return ""
    if not compiled:
        if not budget_s or answer.seconds < budget_s:
            return ""
        return f"Its {budget_s:.0f} s ended before a first compile did: give it more."
    took = seconds_text(answer.seconds)
    if is_few:
        return f"Stopped after {took}, once the {count_text(compiled)} best were compiled."
    if budget_s and answer.seconds >= budget_s:
        return f"Stopped after its {budget_s:.0f} s, with {count_text(compiled)} compiled."
    return f"{count_text(compiled)} compiled in {took}."


def state_words(answer: Answer) -> str:
    """Whether a candidate that could win was not looked at, the search's duration, and what failed."""
    return _left_words(answer) + _failed_words(answer)


def _failed_words(answer: Answer) -> str:
    failed = [each for each in answer.found if each.stage == "failed"]
    return (
        f" {count_text(len(failed))} failed, the first of them {failed[0].name} "
        f"({rule_words(failed[0].detail).rstrip('.')})."
        if failed and answer.winner
        else ""
    )


def _left_words(answer: Answer) -> str:
    took = f", in {seconds_text(answer.seconds)}" if answer.seconds else ""
    if answer.complete:
        known = (
            "every candidate that may run is estimated"
            if answer.counts["estimated"]
            else "nothing that could win is left out"
        )
        return _by_estimate(answer, took) or f"Complete: {known}{took}."
    left, looked = answer.counts["not looked at"], count_text(len(answer.found))
    if answer.is_partial:
        return f"Stopped early{took}: {count_text(left)} candidates were not looked at."
    if left:
        return (
            f"Too many to estimate each: a quick estimate of every mesh and batch chose these {looked}."
            f"{took and f' The search took {seconds_text(answer.seconds)}.'}"
        )
    estimated = count_text(answer.counts["estimated"])
    return f"Not complete: {estimated} candidates are only estimated{took}."


def _by_estimate(answer: Answer, took: str) -> str:
    """How many were excluded by their estimate alone, and how reliable that is."""
    far = [each for each in answer.found if each.reason == "estimate far above the best"]
    if not far:
        return ""
    nearest = min(far, key=lambda each: each.seconds or 0.0)
    return (
        f"Complete: each candidate was compiled or ruled out{took}; {count_text(len(far))} only "
        f"by their estimates, which is no proof (of the nearest, {rule_words(nearest.detail)})."
    )


def ranked_words(answer: Answer) -> str:
    """How many candidates are in how many rows of the ranking, if not all are shown."""
    count = sum(1 + len(entry.alike) for entry in answer.ranking)
    rows = numbered(len(answer.shardings), "row")
    return f"{numbered(count, 'candidate')} in {rows}: `Every candidate` lists them all."


def best_words(answer: Answer, winner: Candidate, own: Own | None = None) -> str:
    """Returns the first candidate in a sentence, without its figures: best so far where something
    could still win; of a program what it gains. `own`: the program as it is, by default as exported.
    """
    known = answer.counts[winner.stage]
    if winner.experiment.exported and answer.question.minimize == "time":
        own = own or as_exported(answer)
        if own and (gain := gain_words(answer, winner, own)):
            return gain
    if winner.experiment.exported and answer.rivals:
        others = numbered(len(answer.rivals), "other")
        return (
            f"About even with {others}{'' if answer.complete else ' so far'}: {lead_name(winner)}."
        )
    # estimates that look faster are not known as well
    if winner.step and answer.open_estimates and known > 1:
        return f"Best of {count_text(known)} {winner.stage}: {lead_name(winner)}."
    if not winner.step and winner.stage == "estimated" and answer.open_numbers:
        return f"Too close to tell by estimates. The first is {lead_name(winner)}."
    if not winner.step and (answer.rivals or answer.open_alone):
        return f"Too close to tell. The first is {lead_name(winner)}."
    return f"Best{' so far' * bool(answer.open_numbers)}: {lead_name(winner)}."


def held_words(answer: Answer, own: Own | None = None) -> str:
    """Returns what a device holds with the mesh and specs of a program's best, beside those of the
    program as it is or as exported, and which weights it holds replicated; "" of other questions.
    """
    winner = answer.winner
    program = program_of(winner.experiment) if winner else None
    if program is None:
        return ""
    own = own or as_exported(answer)
    mine = program_of(own.experiment) if own else None
    now = held_bytes(program, {}, donated=())
    held = bytes_change(held_bytes(mine, {}, donated=()), now) if mine else bytes_text(now)
    of = ""
    if own:
        same = ", the same as exported" if own.called == AS_EXPORTED else ", the same as it is"
        of = f", {own.called} → found" if "→" in held else same * (mine != program)
    return f"Held on each device: {held}{of}. {replicated_words(program, of_some=True)}".strip()


def ahead_estimates(answer: Answer) -> str:
    """Returns why what is compiled is the best though estimates look faster, in a sentence; "" where
    none does.
    """
    winner = answer.winner
    if winner is None or not winner.step or not answer.open_estimates:
        return ""
    if answer.question.minimize != "time":
        return ""
    mine = answer.ranking[0].score
    firsts = [group[0] for group in answer.shardings]
    less = [
        each
        for each in firsts
        if each.score < mine
        and each.candidate.stage == "estimated"
        and each.candidate.fits == "yes"
    ]
    if not less:
        return ""
    least = min(less, key=lambda each: each.score).candidate
    time = f"{time_of_tokens(least)} ({span_of_tokens(least)})"
    if len(less) == 1:
        return f"1 estimate is lower, {time}: its range overlaps that of the first."
    many = count_text(len(less))
    return f"{many} estimates are lower, from {time}: their ranges overlap that of the first."


def funnel_words(answer: Answer) -> str:
    """Returns how many candidates there are, how many reached which stage, and of which the rows are."""
    called = {"not looked at": "not looked at", "pruned": "ruled out", "estimated": "estimated"}
    stages = {stage: called.get(stage, stage) for stage in (*called, "compiled", "measured")}
    counts = ", ".join(
        f"{count_text(answer.counts[stage])} {words}"
        for stage, words in stages.items()
        if answer.counts[stage]
    )
    is_step = answer.winner is not None and answer.winner.step is not None
    rows = " Rows are the best of each mesh and batch" * is_step
    beside = ", and others that are compiled" * (is_step and answer.counts["compiled"] > 1)
    return f"{numbered(answer.space, 'candidate')}: {counts}.{rows}{beside}{'.' * is_step}"


def how_many_overlap(answer: Answer) -> str:
    """Returns the ranges of how many others that of the first overlaps, and how many of them may not
    fit; "" for none.
    """
    many = len(answer.rivals)
    unsure = sum(each.step is not None and each.fits != "yes" for each in answer.rivals)
    winner = answer.winner
    is_compiled = winner is not None and winner.stage == "compiled"
    others = numbered(many, "other")
    others += " that is compiled" if many == 1 and is_compiled else " compiled" * is_compiled
    of_them = f", {count_text(unsure)} of which may not fit" if unsure else ""
    return f"overlaps {others}{of_them}" * bool(many)


def open_words(answer: Answer) -> str:
    """Returns how many others may be as fast, by their ranges or their estimates; "" for none."""
    of = f" of {count_text(len(answer.found))} looked at" * bool(answer.counts["not looked at"])
    many = len(answer.open_numbers)
    return f"Not settled: {numbered(many, 'other')}{of} could win" if many else ""


def picked_words(answer: Answer) -> str:
    """Returns why the first of those that may be as fast is picked, in a sentence; "" of none."""
    winner, count = answer.winner, answer.open_estimates
    if winner is None or not (answer.rivals or count):
        return ""
    could = f"{numbered(count, 'estimate')} could win" * bool(count)
    known = ", ".join(filter(None, (how_many_overlap(answer), could)))
    best = {"memory": "smallest", "price": "cheapest"}.get(answer.question.minimize, "fastest")
    sure = " that surely fits" if winner.step and winner.fits == "yes" else ""
    how = {"estimated": "Estimated, not compiled: its range ", "compiled": "Its range "}
    its = how.get(winner.stage, "Its range ") if answer.rivals else ""
    return f"{its}{known}; it is the {best}{sure}."


def how_sure(answer: Answer) -> list[str]:
    """Returns how sure an answer is, each fact in one sentence: how the winner compares, what it costs
    at worst, what is ahead of it, and the space.
    """
    picked, winner = picked_words(answer), answer.winner
    is_step = winner is not None and winner.step is not None
    is_picked = bool(picked) and is_step
    compared = _estimates_words(answer) if is_picked else sure_words(answer)
    if is_picked and winner is not None and winner.stage == "estimated":
        compared = ""  # as are all others
    is_counted = is_step and not (answer.complete or answer.is_partial or _not_reached(answer))
    state = _failed_words(answer).strip() if is_counted else state_words(answer)
    points = (picked, compared, risk_words(answer), ahead_words(answer), space_words(answer), state)
    return [each for each in points if each]


def _not_reached(answer: Answer) -> int:
    return answer.counts["not looked at"]


_REASONS = {
    "does not divide": "do not divide",
    "does not fit": "do not fit in memory",
    "equal to another by renaming": "equal another by renaming",
    "lower bound above the best": "have a lower bound above the best",
    "estimate far above the best": "are estimated far above the best",
    "not expressible under its strategy": "cannot be written under their strategy",
    "excluded by what is fixed": "are excluded by what is fixed",
}


def space_words(answer: Answer) -> str:
    """How many candidates the space has, and their outcomes: the counts sum to the space."""
    parts = [
        f"{count_text(count)} {_STATE_WORDS[state]}"
        for state, count in answer.counts.items()
        if count
    ]
    reasons = "; ".join(
        f"{count_text(count)} {_REASONS.get(reason, reason)}"
        for reason, count in answer.pruned.items()
    )
    why = f" Ruled out: {reasons}." if reasons else ""
    return f"{count_text(answer.space)} candidates: {', '.join(parts)}.{why}"
