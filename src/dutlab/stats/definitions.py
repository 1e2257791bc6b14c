"""Definitions of a limit: search goals of RFC 9971 (MLRsearch), by which `rescore.py` judges trials."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Definition:
    """Conditions under which a load is within the limit (RFC 9971, search goal). Durations in seconds, the rest as shares."""

    name: str
    loss_ratio: float
    """Loss ratio above which a trial is bad."""
    exceed_ratio: float
    """Share of the seconds that may be bad."""
    final_s: float
    """Least duration of a full-length trial; shorter ones count only against a load."""
    sum_s: float
    """Seconds of trials that a load needs."""
    words: str = ""


RFC2544 = Definition("rfc2544", 0.0, 0.0, 60.0, 60.0, "RFC 2544 section 26.1: no loss in a trial of 60 s")
CSIT_NDR = Definition("csit-ndr", 0.0, 0.5, 1.0, 21.0, "FD.io CSIT's NDR: no loss in half of 21 trials of 1 s")
CSIT_PDR = Definition("csit-pdr", 0.005, 0.5, 1.0, 21.0, "FD.io CSIT's PDR: at most 0.5 % lost in half of 21 trials of 1 s")
TST009 = Definition("tst009", 0.0, 0.5, 60.0, 120.0, "ETSI NFV-TST 009: no loss in one of two trials of 60 s")
NDR_0001 = Definition("ndr-0.001%", 1e-5, 0.0, 0.0, 0.0, "at most 0.001 % lost in every trial, of any length")
PDR_01 = Definition("pdr-0.1%", 1e-3, 0.0, 0.0, 0.0, "at most 0.1 % lost in every trial, of any length")
DEFINITIONS = (RFC2544, CSIT_NDR, CSIT_PDR, TST009, NDR_0001, PDR_01)
