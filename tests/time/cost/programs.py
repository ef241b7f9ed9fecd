"""A small scheduled module in the TPU compiler's spelling.

A loop of 10 steps (its index goes up by 2 to 20); in each, a gather starts, a matmul runs beside it
and carries its buffers on, and a second
matmul uses what was gathered.
"""

from pathlib import Path

LOOP = (Path(__file__).parent / "loop.txt").read_text("utf-8")
