"""The colors of kinds of time, on light pages and dark ones alike: charts, timelines and captions
have them from here.
"""

KINDS = {  # in the order of a legend
    "matmul": "#3b76c4",
    "kernel": "#7a5cc7",
    "compute": "#3b76c4",
    "memory": "#5aa6a0",
    "hidden": "#a9b4c2",
    "exposed": "#d9730d",
    "wait": "#c9485b",
    "copy": "#8d8a5e",
    "loop": "#6c7686",
}
