"""A database that an earlier version wrote opens, and its runs get their sentences: a measured run, a
prediction, a study, a calibration and a search.
"""

import gzip
import io
from pathlib import Path

from spmd_core.lab import Lab
from spmd_core.reports import Subject, html_text, markdown_text, report_document
from spmd_core.words import run_headline

STORED = Path(__file__).parent / "store" / "stored_before.sqlite3.gz"


def _has_reports(lab):
    """A run of every kind has a report, is compared, and travels."""
    subjects = [Subject(each, lab.result(each.run)) for each in lab.history()]
    for each in subjects:
        assert "<h1>" in html_text(report_document([each]))
    assert "Different work (" in markdown_text(report_document(subjects))
    file = io.BytesIO()
    assert lab.archives.export(lab.archives.every(), file) == ()
    assert len(lab.archives.import_file(file).present) == len(subjects)


def test_runs_of_before_are_read_and_get_their_sentences(data_folder):
    data_folder.mkdir(mode=0o700)
    (data_folder / "lab.sqlite3").write_bytes(gzip.decompress(STORED.read_bytes()))
    lab = Lab.open()
    assert lab.unread() == ()
    results = [lab.result(each.run) for each in lab.history()]
    sentences = [run_headline(result) for result in results if result]
    assert len(results) == len(sentences) == 4
    measured = next(each for each in sentences if "is fastest" in each)
    assert measured.startswith("Single device is fastest in this process: 6.04 µs per call.")
    assert any("of the step waits for all-reduce over x" in each for each in sentences)
    assert any("replicated” (77.8 µs)" in each for each in sentences)
    assert all(result and result.next for result in results if result and result.comparison)
    _has_reports(lab)
