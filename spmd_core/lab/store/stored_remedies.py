"""What would remove the collectives of a run, kept with the run."""

import json
import zlib

from spmd_core.lab.store.database import Database


class Remedies(Database):
    """The table of what was tried for each run, as JSON values."""

    def keep(self, run: str, body: dict[str, object]) -> None:
        """Store the remedies of a run, in place of what was there; StorageError where the run was
        deleted.
        """
        packed = zlib.compress(json.dumps(body, separators=(",", ":")).encode())
        self._write("INSERT OR REPLACE INTO remedies VALUES (?, ?)", (run, packed))

    def of(self, run: str) -> dict[str, object] | None:
        """The stored remedies of a run; None where nothing was tried."""
        rows = self._rows("SELECT body FROM remedies WHERE run = ?", (run,))
        return json.loads(zlib.decompress(rows[0]["body"])) if rows else None
