"""The page that Compare is held against: a table of 20 x 8 and two charts of 200 points, as anybody
would write it with Streamlit alone. `bench.viewers` serves it.
"""

import numpy as np
import pandas as pd
import streamlit as st

ROWS, COLUMNS, POINTS = 20, 8, 200


def draw() -> None:
    """Draw the page, with new numbers each time."""
    random = np.random.default_rng()
    st.title("A plain page")
    st.dataframe(
        pd.DataFrame(
            random.normal(size=(ROWS, COLUMNS)),
            columns=[f"column {number}" for number in range(COLUMNS)],
        )
    )
    for _ in range(2):
        st.line_chart(pd.DataFrame({"value": random.normal(size=POINTS).cumsum()}))


if __name__ == "__main__":
    draw()
