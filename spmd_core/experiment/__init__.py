"""The experiment: one frozen value, its rules, its link, its layout."""

from spmd_core.experiment.experiment import Experiment, parse_experiment, parse_experiment_text

__all__ = ["Experiment", "parse_experiment", "parse_experiment_text"]
