"""A fingerprint of a compiled program that ignores instruction names and source locations."""

import hashlib
import re

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_METADATA = re.compile(rf", metadata=\{{(?:[^{{}}\"]|{_QUOTED})*\}}")
_NAME = re.compile(r"%[\w.\-]+")
# in a computation's header, names may lack the %
_PARAMETER = re.compile(r"[\w.\-]+(?=: )")
_CHANNEL = re.compile(r", channel_id=\d+")
_HEADS = ("%", "ENTRY ")


def fingerprint(text: str) -> str:
    """16 hex digits, equal for compiled texts whose instructions, order, shapes, groups and
    schedules are the same.
    """
    digest, numbers = hashlib.sha256(), {}

    def numbered(match: re.Match[str]) -> str:
        return f"%{numbers.setdefault(match[0], len(numbers))}"

    within = False
    for line in text.splitlines():
        if line.startswith(_HEADS) and line.endswith("{"):
            within, line = True, _PARAMETER.sub("", line)
        # the text before the first computation names the module and its source lines
        if within:
            digest.update(
                _NAME.sub(numbered, _CHANNEL.sub("", _METADATA.sub("", line))).encode() + b"\n"
            )
        within = within and line != "}"
    return digest.hexdigest()[:16]
