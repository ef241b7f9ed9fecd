"""Which texts of the screens are read as Markdown, and which of them nobody has made plain.

Streamlit reads nearly every text that it is given as Markdown, and takes names of icons and of
colors out of it. A text is ours where it is written in the source, a number, or was made plain by
`ui.markdown`; everything else may hold what others wrote. A function that hands an argument of its
own to such a place is such a place too.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.layers import ROOT, source_files

Function = ast.FunctionDef | ast.AsyncFunctionDef
_FIRST = (
    *("markdown", "write", "error", "warning", "info", "success", "caption", "title", "header"),
    *("subheader", "toast", "badge", "expander", "popover", "dialog", "button", "link_button"),
    *("download_button", "selectbox", "radio", "checkbox", "toggle", "segmented_control", "pills"),
    *("multiselect", "text_input", "number_input", "text_area", "select_slider", "slider"),
    *("status", "spinner", "file_uploader", "form_submit_button", "tabs"),
)
# Streamlit's functions -> the places of those arguments that are read as Markdown
_SINKS: Mapping[str, tuple[int | str, ...]] = dict.fromkeys(_FIRST, (0,)) | {
    "metric": (0, 1, 2),
    "progress": (1,),
    "page_link": (),
    "table": (0,),
    "dataframe": (0,),  # what its menu saves is opened in a spreadsheet
}
_NAMED = ("label", "body", "text", "help", "delta", "caption", "icon")
_OPTIONS = ("pills", "segmented_control", "radio")  # their options are read as Markdown too
# these make texts of numbers alone, or of words of a table of ours and numbers
_OF_NUMBERS = {
    *(
        "bytes_text",
        "max",
        "min",
        "range",
        "seconds_text",
        "scaled_text",
        "number_text",
        "count_text",
        "ordinal_text",
    ),
    *(
        "money_text",
        "time_text",
        "interval_text",
        "ago",
        "len",
        "marker",
        "numbered",
        "position",
        "startswith",
        "endswith",
        "state_words",
    ),
}
_DOORS = ("plain", "option", "coded", "code", "quoted", "escaped", "sheet", "formatted", "sortable")
_KEEP = ("replace", "strip", "capitalize", "lower", "upper", "removesuffix", "rstrip")


@dataclass(frozen=True)
class Place:
    """An argument that is read as Markdown."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.text}"


class Speech:
    """The functions of the screens, and the places at which they speak."""

    def __init__(self, sources: dict[str, str]):
        self._trees = {file: ast.parse(text) for file, text in sources.items()}
        self._imports = {file: _imports(tree) for file, tree in self._trees.items()}
        self._functions: dict[str, tuple[str, Function]] = {}
        self._handed: dict[str, tuple[int | str, ...]] = {}
        self._asked: set[str] = set()
        for file, tree in self._trees.items():
            for node in ast.walk(tree):
                if isinstance(node, Function):
                    self._functions[f"{file}:{node.name}"] = file, node

    def unspoken_for(self) -> list[Place]:
        """Every argument that is neither ours nor was made plain."""
        found: dict[Place, None] = {}
        waiting = True
        while waiting:  # until no function more hands its own arguments on
            waiting, found = False, {}
            for file, tree in self._trees.items():
                for call, inside in _calls(tree, None):
                    for argument in self._spoken(call, file):
                        for name in self._unsafe(argument, file, inside):
                            if name is None or inside is None:
                                found[Place(file, argument.lineno, ast.unparse(argument))] = None
                            else:
                                waiting |= self._hands_on(file, inside, name)
        return list(found)

    def _spoken(self, call: ast.Call, file: str) -> Iterator[ast.expr]:
        name, known = _called(call), self._resolved(call, file)
        of_streamlit = known is None and name in _SINKS and _is_place(call.func)
        places = _SINKS[name] if of_streamlit else self._handed.get(known or "", ())
        for place in places:
            if isinstance(place, int) and place < len(call.args):
                yield call.args[place]
        for word in call.keywords:
            if word.arg in places or (of_streamlit and word.arg in _NAMED):
                yield word.value
        if of_streamlit and name in _OPTIONS:
            yield from self._options(call)

    def _resolved(self, call: ast.Call, file: str) -> str | None:
        """The screens' own function that is called, as `file:name`; None where it is another."""
        name = _called(call)
        match call.func:
            case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
                own = f"{file}:{name}"
                return own if own in self._functions else self._imported(name, file)
            case ast.Attribute(value=ast.Name(id=module)):
                return self._imported(module, file, name)
            case _:
                return None

    def _imported(self, name: str, file: str, inside: str = "") -> str | None:
        """Where a name that a file imports is written; `inside` of it, where it is a module."""
        if (path := self._imports[file].get(name)) is None:
            return None
        parts = [*path, *([inside] if inside else [])]
        function = f"{'/'.join(parts[:-1])}.py:{parts[-1]}"
        return function if function in self._functions else None

    def _options(self, call: ast.Call) -> Iterator[ast.expr]:
        words = [word.value for word in call.keywords if word.arg == "format_func"]
        if words:
            yield words[0].body if isinstance(words[0], ast.Lambda) else words[0]
        elif len(call.args) > 1:
            yield call.args[1]

    def _hands_on(self, file: str, function: Function, name: str) -> bool:
        arguments = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        method = arguments[:1] == ["self"]
        place = arguments.index(name) - method if name in arguments else name
        own = f"{file}:{function.name}"
        known = self._handed.get(own, ())
        new = {place, name} - set(known)
        self._handed[own] = (*known, *new)
        return bool(new)

    def _unsafe(self, node: ast.expr, file: str, inside: Function | None) -> Iterator[str | None]:
        """None for each part that is not ours; the name for one that is an argument of `inside`."""
        if _of_table(node):
            return
        match node:
            case ast.Constant():
                return
            case ast.JoinedStr(values=parts):
                pass
            case ast.FormattedValue(value=value, format_spec=spec):
                parts = [] if spec is not None and _is_number(spec) else [value]
            case ast.IfExp(body=body, orelse=other):
                parts = [body, other]
            case ast.BinOp(left=left, right=right):
                parts = [left, right]
            case ast.BoolOp(values=parts):
                pass
            case ast.NamedExpr(value=value) | ast.Starred(value=value):
                parts = [value]
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                pass
            case ast.Dict(values=parts):
                pass
            case ast.ListComp(elt=value) | ast.GeneratorExp(elt=value):
                parts = [value]
            case ast.Subscript(value=value):
                parts = [value]
            case ast.Call():
                yield from self._of_call(node, file, inside)
                return
            case ast.Name(id=name):
                yield from self._of_name(name, file, inside)
                return
            case ast.Attribute(attr=name) if name.lstrip("_").isupper():
                return
            case _:
                yield None
                return
        for part in parts:
            yield from self._unsafe(part, file, inside)

    def _of_call(self, node: ast.Call, file: str, inside: Function | None) -> Iterator[str | None]:
        function = node.func
        if isinstance(function, ast.Attribute):
            if function.attr == "join":
                parts = node.args
            elif function.attr in _KEEP:
                parts = [function.value, *node.args]
            elif function.attr in (*_OF_NUMBERS, "escaped"):
                return
            elif function.attr == "get" and ast.unparse(function.value).lstrip("_").isupper():
                parts = node.args[1:]
            else:
                parts = None
        elif isinstance(function, ast.Name):
            if function.id in _OF_NUMBERS or function.id in _doors(self._trees[file]):
                return
            if function.id in ("str", "list", "tuple", "sorted", "next", "iter"):
                parts = node.args
            else:
                parts = None
        else:
            parts = None
        if parts is not None:
            for part in parts:
                yield from self._unsafe(part, file, inside)
        elif not self._returns_ours(node, file):
            yield None

    def _returns_ours(self, node: ast.Call, file: str) -> bool:
        """Whether the function that is called is a screen's own, and returns nothing but ours."""
        name = self._resolved(node, file)
        known = self._functions.get(name or "")
        if name is None or known is None or name in self._asked:
            return False
        self._asked.add(name)
        try:
            where, function = known
            given = [each for each in _own(function) if isinstance(each, ast.Return)]
            return bool(given) and not any(
                True
                for each in given
                if each.value is not None
                for _ in self._unsafe(each.value, where, function)
            )
        finally:
            self._asked.discard(name)

    def _of_name(self, name: str, file: str, inside: Function | None) -> Iterator[str | None]:
        if name.lstrip("_").isupper():
            return
        if name in _doors(self._trees[file]) or name in _OF_NUMBERS:
            return  # a format_func
        scope: ast.AST = inside if inside is not None else self._trees[file]
        key = f"{getattr(scope, 'name', file)}.{name}"
        if key in self._asked:
            return  # a text that is added to
        self._asked.add(key)
        try:
            given = list(_assigned(scope, name))
            if not given and inside is not None and name in _arguments(inside):
                yield name
            elif not given and self._function_is_ours(name, file):
                return
            elif not given:
                yield None
            for value in given:
                if value is None:
                    yield None
                else:
                    yield from self._unsafe(value, file, inside)
        finally:
            self._asked.discard(key)

    def _function_is_ours(self, name: str, file: str) -> bool:
        return self._returns_ours(ast.Call(ast.Name(name), [], []), file)


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_place(function: ast.expr) -> bool:
    """Whether it is Streamlit or a place on the screen that is asked to draw, not the Lab or a sheet
    such as `FITS`."""
    asked = ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
    return bool(asked) and asked not in ("lab()", "pa") and not asked.isupper()


def _is_number(spec: ast.expr) -> bool:
    parts = spec.values if isinstance(spec, ast.JoinedStr) else []
    return bool(parts) and str(getattr(parts[-1], "value", ""))[-1:] in tuple(",dfge%")


def _imports(tree: ast.Module) -> dict[str, list[str]]:
    """Name in a file -> the path of what it imports by that name."""
    return {
        alias.asname or alias.name: [*node.module.split("."), alias.name]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


@cache
def _doors(tree: ast.Module) -> set[str]:
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module in ("spmd_lab.ui.markdown", "spmd_lab.ui.tables")
        for alias in node.names
        if alias.name in _DOORS
    }


def _arguments(function: Function) -> set[str]:
    args = function.args
    return {each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs)}


def _own(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    waiting = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [
            each
            for each in ast.iter_child_nodes(node)
            if not isinstance(each, (*Function.__args__, ast.Lambda))
        ]


def _assigned(scope: ast.AST, name: str) -> Iterator[ast.expr | None]:
    """What a name is given in a scope; None for what cannot be followed."""
    for node in ast.walk(scope):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _given(target, value, name)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                yield from _given(target, value, name)
            case (
                ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
            ):
                yield from _given(target, value, name)
            case ast.For(target=target, iter=rows) | ast.comprehension(target=target, iter=rows):
                yield from _looped(target, rows, name)
            case ast.ExceptHandler(name=caught) if caught == name:
                yield None
            case ast.withitem(optional_vars=target) if target is not None and _holds(target, name):
                yield None
            case _:
                pass


def _given(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr | None]:
    if isinstance(target, ast.Name):
        if target.id == name:
            yield value
    elif _holds(target, name):
        if _of_table(value):
            yield value
        elif isinstance(value, ast.IfExp):
            yield from _given(target, value.body, name)
            yield from _given(target, value.orelse, name)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for part, each in zip(target.elts, value.elts, strict=False):
                yield from _given(part, each, name)
        else:
            yield None


def _looped(target: ast.expr, rows: ast.expr, name: str) -> Iterator[ast.expr | None]:
    if not _holds(target, name):
        return
    while isinstance(rows, ast.Call) and getattr(rows.func, "id", "") in ("enumerate", "zip"):
        if not isinstance(target, ast.Tuple):
            yield None
            return
        if rows.func.id == "zip":  # pyright: ignore[reportAttributeAccessIssue]
            at = next(n for n, each in enumerate(target.elts) if _holds(each, name))
            target, rows = target.elts[at], rows.args[at]
        elif _holds(target.elts[0], name):
            return  # a number
        else:
            target, rows = target.elts[1], rows.args[0]
    while isinstance(rows, ast.Call) and ast.unparse(rows.func) in ("dict.fromkeys", "sorted"):
        rows = rows.args[0]
    if _of_table(rows):
        yield rows
        return
    if isinstance(rows, (ast.Tuple, ast.List)):
        for row in rows.elts:
            yield from _given(target, row, name)
    elif isinstance(target, ast.Name):
        yield rows if isinstance(rows, ast.Name) else None
    else:
        yield None


def _of_table(node: ast.expr) -> bool:
    """Whether it is an entry, or all of them, of a table that the source holds."""
    while isinstance(node, (ast.Subscript, ast.Attribute)) or (
        isinstance(node, ast.Call) and not node.args
    ):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id.lstrip("_").isupper()


def _holds(target: ast.expr, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target))


def _calls(node: ast.AST, inside: Function | None) -> Iterator[tuple[ast.Call, Function | None]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child, inside
        yield from _calls(child, child if isinstance(child, Function) else inside)


def speech(root: Path = ROOT) -> Speech:
    """Of everything that is drawn: `app.py`, `home.py`, `pages` and `spmd_lab/ui`."""
    files = [path.relative_to(root) for path in source_files(root)]
    return Speech(
        {
            str(file): (root / file).read_text("utf-8")
            for file in files
            if file.parts[0] in ("app.py", "home.py", "pages", "spmd_lab")
        }
    )
