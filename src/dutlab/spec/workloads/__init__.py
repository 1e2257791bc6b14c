"""The workloads of an experiment file: what is driven through the DUT, by which tool, on which links.

    workloads:
      - iperf3: {streams: 4, omit: 5s, duration: 30s, links: [[a], [b], [a, b]]}
      - search: {preset: csit, frame_sizes: [64, 1518], links: [[a]]}
      - sweep:  {frame_sizes: [64, 1518, imix], rates: [max, 100kpps], duration: 30s, links: [[a]]}

Each expands into settings; a setting times the factors times the repeats is a trial. One file a workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, ValidationError, ValidationInfo

from dutlab.spec.model import Loc, did_you_mean, fault, faults_of, refuse
from dutlab.spec.workloads.base import LinkBounds, Need, Setting, WorkloadModel
from dutlab.spec.workloads.datagrams import DatagramsWorkload
from dutlab.spec.workloads.generators import GeneratorsWorkload
from dutlab.spec.workloads.iperf3 import Iperf3Workload
from dutlab.spec.workloads.latency import LatencyWorkload
from dutlab.spec.workloads.loadtest import LoadtestWorkload
from dutlab.spec.workloads.matrix import MatrixWorkload
from dutlab.spec.workloads.path_mtu import PathMtuWorkload
from dutlab.spec.workloads.quick_test import QuickTestWorkload
from dutlab.spec.workloads.reconf import ReconfWorkload
from dutlab.spec.workloads.rfc2544 import Rfc2544Workload
from dutlab.spec.workloads.routes import RoutesWorkload
from dutlab.spec.workloads.search import SearchWorkload
from dutlab.spec.workloads.soak import SoakWorkload
from dutlab.spec.workloads.state import StateWorkload
from dutlab.spec.workloads.steps import StepsWorkload
from dutlab.spec.workloads.sweep import SweepWorkload

__all__ = ["KINDS", "LinkBounds", "Need", "Setting", "Workload", "WorkloadModel"]

_MODELS: tuple[type[WorkloadModel], ...] = (
    Iperf3Workload,
    SweepWorkload,
    LoadtestWorkload,
    LatencyWorkload,
    SoakWorkload,
    ReconfWorkload,
    SearchWorkload,
    QuickTestWorkload,
    StepsWorkload,
    PathMtuWorkload,
    Rfc2544Workload,
    RoutesWorkload,
    StateWorkload,
    MatrixWorkload,
    GeneratorsWorkload,
    DatagramsWorkload,
)
KINDS: Mapping[str, type[WorkloadModel]] = {model.kind: model for model in _MODELS}


def _dispatch(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 what a user wrote can be anything
    """`{sweep: {...}}` as the model that its key names."""
    if isinstance(value, WorkloadModel):
        return value
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ValueError(f"must be one of {', '.join(KINDS)} with its settings, as in `- sweep: {{duration: 30s}}`")
    kind, body = next(iter(value.items()))
    at: Loc = (str(kind),)
    if kind not in KINDS:
        raise refuse("workload", [fault(at, f"unknown workload {did_you_mean(str(kind), KINDS)}")])
    try:
        return KINDS[kind].model_validate(body, context=info.context)
    except ValidationError as error:
        raise refuse("workload", faults_of(error, at)) from error


Workload = Annotated[WorkloadModel, BeforeValidator(_dispatch), PlainSerializer(lambda w: {w.kind: w.model_dump(mode="json")})]
"""One entry of `workloads`."""
