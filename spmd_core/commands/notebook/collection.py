"""Lists collections, shows one, makes and changes them."""

import json
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence

from spmd_core.base import check_known, numbered, refuse, shorten, visible
from spmd_core.commands.notebook.named import run_named, subjects_of, text_of
from spmd_core.commands.spec import stored_id
from spmd_core.lab import Lab
from spmd_core.reports import collection_document, plain_text
from spmd_core.runs import Collection
from spmd_core.terms import ago

_USAGE = {
    "list": "",
    "show": "COLLECTION",
    "new": "TITLE [RUN…]",
    "add": "COLLECTION [RUN…] [--text TEXT] [--search ID]",
    "edit": "COLLECTION PART TEXT",
    "move": "COLLECTION PART PLACES",
    "remove": "COLLECTION PART…",
    "rename": "COLLECTION TITLE",
    "delete": "COLLECTION",
}
_LEAST = {
    "show": 1,
    "new": 1,
    "add": 1,
    "edit": 3,
    "move": 3,
    "remove": 2,
    "rename": 2,
    "delete": 1,
}
_MOST = {"list": 0, "show": 1, "edit": 3, "move": 3, "rename": 2, "delete": 1}


ARGUMENTS = {
    "action": {
        "metavar": "ACTION",
        "nargs": "?",
        "default": "list",
        "help": "; ".join(f"{action} {words}".strip() for action, words in _USAGE.items()),
    },
    "words": {"metavar": "WORD", "nargs": "*", "help": "what the action takes"},
    "--text": {"metavar": "TEXT", "help": "with add: a text, - for standard input"},
    "--search": {"metavar": "ID", "help": "with add: a search, with its answer"},
}


def main(arguments: Namespace) -> int:
    """Carry out the action, and print the collection as it is then."""
    action, words = arguments.action, [*map(stored_id, arguments.words[:1]), *arguments.words[1:]]
    check_known("action", action, _USAGE, "does not exist")
    if not _LEAST.get(action, 0) <= len(words) <= _MOST.get(action, len(words)):
        raise refuse(
            f"collection {action}", f"takes {_USAGE[action] or 'nothing else'}", "see --help"
        )
    if (arguments.text or arguments.search) and action != "add":
        raise refuse(f"collection {action}", "takes no --text or --search", "use add")
    lab = Lab.open(serve=False)
    if action == "list":
        return _list(lab, arguments)
    if action == "delete":
        lab.collections.delete(words[0])
        print(json.dumps({"deleted": words[0]}) if arguments.json else f"deleted {words[0]}")
        return 0
    changed = _ACTIONS[action](lab, words, arguments)
    if arguments.json:
        print(json.dumps(changed.to_json()))
    elif action == "show":
        print(plain_text(collection_document(changed, subjects_of(lab, changed.runs))))
    else:
        parts = ", ".join(f"{each.id} ({each.kind})" for each in changed.items) or "none"
        print(f"collection {changed.id} {changed.title!r}, parts: {parts}")
    return 0


def _list(lab: Lab, arguments: Namespace) -> int:
    listed = lab.collections.listed()
    if arguments.json:
        print(json.dumps([each.to_json() for each in listed]))
        return 0
    for each in listed:
        parts = numbered(len(each.items), "part")
        print(f"{each.id}  {visible(each.title)}  ({parts}, {ago(each.updated_at)})")
    if not listed:
        print('no collections: begin one with collection new "TITLE" RUN…')
    return 0


def _new(lab: Lab, words: Sequence[str], _: Namespace) -> Collection:
    runs = [run_named(lab, word) for word in words[1:]]
    made = lab.collections.create(words[0])
    return lab.collections.add_runs(made.id, *runs) if runs else made


def _add(lab: Lab, words: Sequence[str], arguments: Namespace) -> Collection:
    changed = lab.collections.find(words[0])
    runs = [run_named(lab, word) for word in words[1:]]
    if not runs and arguments.text is None and arguments.search is None:
        raise refuse("collection add", "needs something to add", "name runs, --text or --search")
    if arguments.text is not None:
        changed = lab.collections.add_text(changed.id, text_of(arguments.text))
    if runs:
        changed = lab.collections.add_runs(changed.id, *runs)
    if arguments.search is not None:
        search = lab.searches.find(arguments.search)
        changed = lab.collections.add_search(changed.id, search)
    return changed


def _move(lab: Lab, words: Sequence[str], _: Namespace) -> Collection:
    try:
        by = int(words[2])
    except ValueError:
        raise refuse(f"places {shorten(words[2])}", "is no number", "use 1, or -1 for up") from None
    return lab.collections.move(words[0], words[1], by)


def _remove(lab: Lab, words: Sequence[str], _: Namespace) -> Collection:
    changed = lab.collections.find(words[0])
    for item in words[1:]:
        changed = lab.collections.remove(words[0], item)
    return changed


_ACTIONS: Mapping[str, Callable[[Lab, Sequence[str], Namespace], Collection]] = {
    "show": lambda lab, words, _: lab.collections.find(words[0]),
    "new": _new,
    "add": _add,
    "edit": lambda lab, words, _: lab.collections.rewrite(words[0], words[1], text_of(words[2])),
    "move": _move,
    "remove": _remove,
    "rename": lambda lab, words, _: lab.collections.rename(words[0], words[1]),
}
