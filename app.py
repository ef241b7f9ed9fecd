"""The Overview screen: what hardware this is, what runs now, what ran lately, and where to start."""

from ui import shell

shell.open_page("overview")
