//! Reasons to distrust a result. The engine's commands raise them automatically. Those that dutlab raises too share its
//! names (`src/dutlab/doubts.py`) and its bounds (`src/dutlab/methods/ledger.py`);
//! `tests/contract/test_engine_doubts.py` compares the two.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Share of duplicates in the frames sent above which they are no single accident.
pub const DUPLICATES_SHARE: f64 = 0.001;
/// Share of frames not made in time above which the trial counts as one at another rate.
pub const RATE_TOLERANCE: f64 = 0.005;

/// One reason to distrust a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Doubt {
    /// Kind of doubt, for programs.
    pub kind: DoubtKind,
    /// Explanation, for people.
    pub text: String,
}

/// All reasons that the engine knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DoubtKind {
    /// Frames arrived that were never sent.
    LedgerOpen,
    /// The generator did not reach its rate.
    TxStarved,
    /// The port took fewer frames than were offered. dutlab raises no doubt for it: it is backpressure of the DUT,
    /// which has a figure.
    HeldBack,
    /// It is unknown which frames the port refused.
    RefusalsUnknown,
    /// The receiver dropped frames that had reached this host.
    RxDropped,
    /// It is unknown how many frames the receiver dropped.
    RxDropsUnknown,
    /// Frames came too late to tell whether they are duplicates.
    LedgerGuessed,
    /// The order of frames on the link is not known.
    ReorderingUnknown,
    /// Some reordering extents are unknown.
    ReorderingPartlyKnown,
    /// Frames arrived altered.
    CorruptedFrames,
    /// Frames arrived more than once.
    Duplicates,
    /// Frames arrived that are not ours.
    ForeignFrames,
    /// Frames arrived before they were sent.
    LatencyUnknown,
    /// A port's link went down.
    LinkWentDown,
    /// A port failed. dutlab's trial then has no result.
    PortFailed,
}

impl DoubtKind {
    /// Returns true for a note: the user should know it, but the result is as good as without it.
    #[must_use]
    pub const fn is_note(self) -> bool {
        matches!(
            self,
            Self::ReorderingUnknown | Self::ReorderingPartlyKnown | Self::ForeignFrames | Self::LatencyUnknown
        )
    }
}
