"""The experiment: one frozen value, its rules, its link, its layout."""
