"""The file of an archive: a zip of JSON members, checked before any of them is believed.

`manifest.json` names the schema and the SHA-256 of every other member: `runs/ID.json`,
`texts/ID.json` of a run that left program texts, `collections/ID.json`, and `searches/ID.json`.
"""

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from spmd_core.base import RequestError, bytes_text, refuse, shorten
from spmd_core.fields import load_json

SCHEMA = 1
FORMAT = "spmd-lab archive"
MANIFEST = "manifest.json"
MOST_INFLATED_BYTES, MOST_RATIO = 2**30, 100
MOST_MEMBERS, MOST_MEMBER_BYTES = 60_000, 2**27
RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MEMBER = re.compile(rf"(?:runs|texts|collections|searches)/({RUN_ID.pattern})\.json")
_MOST_MANIFEST_BYTES = 16 * 2**20
_MOST_DIRECTORY_BYTES = 8 * 2**20  # 130 bytes for each of the most members
_END_BYTES, _END, _END64 = 22, b"PK\x05\x06", b"PK\x06\x07"  # of a zip; its 64-bit locator
_LOCATOR_BYTES = 20
_LEVEL = 9
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1  # flag of a member
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every member: equal runs make equal files
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive states of itself. `installation`: a random mark of where it was exported."""

    installation: str
    sha256: Mapping[str, str]

    def ids(self, folder: str = "runs") -> tuple[str, ...]:
        """Returns the ids of its runs, or of what `folder` names, in its order."""
        return tuple(
            named[1]
            for name in self.sha256
            if name.startswith(f"{folder}/") and (named := _MEMBER.fullmatch(name))
        )


def write(
    file: IO[bytes], installation: str, exported_at: float, members: Iterable[tuple[str, bytes]]
) -> int:
    """Write an archive; how many bytes its members have. RequestError where they are too many."""
    digests: dict[str, str] = {}
    size = 0
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members:
            size += len(data)
            is_large = size > MOST_INFLATED_BYTES or len(data) > MOST_MEMBER_BYTES
            if is_large or len(digests) >= MOST_MEMBERS:
                most = f"{bytes_text(MOST_INFLATED_BYTES)} and {MOST_MEMBERS:,} members"
                raise refuse("the archive", f"would pass {most}", "export the runs in parts")
            digests[name] = hashlib.sha256(data).hexdigest()
            _add(archive, name, data)
        manifest = {
            "format": FORMAT,
            "schema": SCHEMA,
            "installation": installation,
            "exported_at": exported_at,
            "sha256": digests,
        }
        _add(archive, MANIFEST, json.dumps(manifest, indent=1).encode())
    return size


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    # what deflates by more than a reader accepts is stored as it is
    ratio = len(data) / max(1, len(zlib.compress(data, _LEVEL)))
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED if ratio < 0.8 * MOST_RATIO else zipfile.ZIP_STORED
    member.external_attr = 0o600 << 16
    archive.writestr(member, data, compresslevel=_LEVEL)


class Archive:
    """An archive that was opened: every member is in the manifest, once, and within the limits.

    `data` reads a member and checks its SHA-256. RequestError wherever something is wrong.
    """

    def __init__(self, file: IO[bytes], name: str = "the archive"):
        self._name = f"archive {shorten(name)}"
        self._check_end(file)
        try:
            self._zip = zipfile.ZipFile(file)
        except _BROKEN as error:
            raise self._bad("is not a zip file that can be read") from error
        self._check_members()
        self.manifest = self._read_manifest()

    def data(self, name: str) -> bytes:
        """A member of the manifest as bytes."""
        data = self._read(name)
        if hashlib.sha256(data).hexdigest() != self.manifest.sha256[name]:
            raise self._bad(f"has the member {name}, which is not what its manifest names")
        return data

    def members(self) -> Iterator[tuple[str, bytes, bytes | None]]:
        """Id, run and texts of each run of the archive."""
        for run in self.manifest.ids():
            texts = f"texts/{run}.json"
            has_texts = texts in self.manifest.sha256
            yield run, self.data(f"runs/{run}.json"), self.data(texts) if has_texts else None

    def each(self, folder: str) -> Iterator[tuple[str, bytes]]:
        """Yields the id and the JSON of each collection of the archive, or of each search."""
        for name in self.manifest.ids(folder):
            yield name, self.data(f"{folder}/{name}.json")

    def _check_end(self, file: IO[bytes]) -> None:
        """RequestError before the directory is read, which may be large itself."""
        self._bytes = file.seek(0, 2)
        file.seek(max(0, self._bytes - _END_BYTES - _LOCATOR_BYTES))
        end = file.read(_END_BYTES + _LOCATOR_BYTES)
        if len(end) < _END_BYTES or not end[-_END_BYTES:].startswith(_END):
            raise self._bad("is not a zip file, or has something behind its end")
        directory = int.from_bytes(end[-10:-6], "little")
        if end.startswith(_END64) or directory > _MOST_DIRECTORY_BYTES:
            raise self._bad(f"has more than {MOST_MEMBERS:,} members")

    def _check_members(self) -> None:
        members = self._zip.infolist()
        names = {each.filename for each in members}
        if len(members) > MOST_MEMBERS + 1 or len(names) < len(members):
            raise self._bad("has too many members, or one of them twice")
        for each in members:
            self._check_member(each)
        inflated = sum(each.file_size for each in members)
        if inflated > MOST_INFLATED_BYTES or inflated > MOST_RATIO * self._bytes:
            most = f"{bytes_text(MOST_INFLATED_BYTES)}, or than {MOST_RATIO} times its own size"
            raise self._bad(f"inflates to {bytes_text(inflated)}, more than {most}")
        if sum(each.compress_size for each in members) > self._bytes:
            raise self._bad("has members that overlap")

    def _check_member(self, each: zipfile.ZipInfo) -> None:
        shown = shorten(each.filename, 40)
        if each.filename != MANIFEST and not _MEMBER.fullmatch(each.filename):
            raise self._bad(f"has the member {shown}, which no archive of runs has")
        if each.flag_bits & _ENCRYPTED or each.compress_type not in _METHODS:
            raise self._bad(f"has the member {shown}, which is encrypted or oddly compressed")
        if each.file_size > MOST_MEMBER_BYTES:
            most = bytes_text(MOST_MEMBER_BYTES)
            raise self._bad(f"has the member {shown}, which is larger than {most}")
        if each.file_size > MOST_RATIO * max(1, each.compress_size):
            raise self._bad(f"has the member {shown}, which inflates over {MOST_RATIO} times")

    def _read_manifest(self) -> Manifest:
        names = set(self._zip.namelist())
        if (
            MANIFEST not in names
            or self._zip.getinfo(MANIFEST).file_size > _MOST_MANIFEST_BYTES
            or not isinstance(fields := self._json(MANIFEST), dict)
        ):
            raise self._bad(f"has no {MANIFEST}")
        schema = fields.get("schema")
        if type(schema) is int and schema > SCHEMA:
            newer = f"has schema {shorten(schema)}, and this version reads {SCHEMA}"
            raise refuse(self._name, newer, "update SPMD Lab")
        manifest = _manifest(fields)
        if manifest is None or schema != SCHEMA or fields.get("format") != FORMAT:
            raise self._bad(f"has a {MANIFEST} that is none of an archive of runs")
        if set(manifest.sha256) != names - {MANIFEST}:
            raise self._bad("has other members than its manifest names")
        texts = {name.removeprefix("texts/") for name in names if name.startswith("texts/")}
        if texts - {f"{run}.json" for run in manifest.ids()}:
            raise self._bad("has texts of a run that it does not have")
        return manifest

    def _json(self, name: str) -> Any:
        try:
            return load_json(self._read(name))
        except RequestError as error:
            raise self._bad(f"has a {name} that cannot be read") from error

    def _read(self, name: str) -> bytes:
        try:
            return self._zip.read(name)
        except _BROKEN as error:
            raise self._bad(f"is damaged at {name}") from error

    def _bad(self, rule: str) -> RequestError:
        return refuse(self._name, rule, "export the runs again, and transfer the file unchanged")


def _manifest(fields: Mapping[str, Any]) -> Manifest | None:
    match fields:
        case {
            "installation": str(installation),
            "exported_at": float() | int(),
            "sha256": dict(digests),
        } if RUN_ID.fullmatch(installation) and all(type(each) is str for each in digests.values()):
            return Manifest(installation, digests)
    return None
