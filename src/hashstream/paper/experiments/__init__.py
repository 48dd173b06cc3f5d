"""Every experiment of the paper, in the order in which `hashstream paper all` runs them.

The file of an experiment is named after its command. A new one is a file with an `EXPERIMENT`, and a line here.
"""

from __future__ import annotations

from types import MappingProxyType

from hashstream.paper.experiments import (
    fig_convergence,
    fig_map_auc,
    fig_map_instances,
    fig_offline,
    fig_parameters,
    fig_precision_auc,
    fig_precision_k,
    readings,
    table_map,
    table_storage,
    table_variants,
)
from hashstream.paper.experiments.table_time import experiment as table_time

__all__ = ["EXPERIMENTS"]

EXPERIMENTS = MappingProxyType(
    {
        module.EXPERIMENT.name: module.EXPERIMENT
        for module in (
            table_map,
            fig_map_instances,
            fig_map_auc,
            fig_precision_k,
            fig_precision_auc,
            table_variants,
            fig_convergence,
            fig_parameters,
            readings,
            table_time,
            fig_offline,
            table_storage,
        )
    }
)
"""By name."""
