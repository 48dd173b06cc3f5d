"""Every experiment of the paper, in the order in which `hashstream paper all` runs them."""

from __future__ import annotations

from types import MappingProxyType

from hashstream.paper import accuracy, convergence, curves, offline, parameters, storage, times, variants

__all__ = ["EXPERIMENTS"]

EXPERIMENTS = MappingProxyType(
    {
        experiment.name: experiment
        for experiment in (
            accuracy.EXPERIMENT,
            curves.MAP_INSTANCES,
            curves.MAP_AUC,
            curves.PRECISION_K,
            curves.PRECISION_AUC,
            variants.EXPERIMENT,
            convergence.EXPERIMENT,
            parameters.EXPERIMENT,
            times.EXPERIMENT,
            offline.EXPERIMENT,
            storage.EXPERIMENT,
        )
    }
)
"""By name."""
