//! Reasons to distrust a result. The commands of the engine give them by themselves; those that dutlab gives too have its names
//! (`src/dutlab/doubts.py`) and its bounds (`src/dutlab/methods/ledger.py`), which tests/contract/test_engine_doubts.py holds against each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More copies than this share of the frames sent are no single accident.
pub const DUPLICATES_SHARE: f64 = 0.001;
/// A trial in which more than this share of the frames was not made in time is one at another rate.
pub const RATE_TOLERANCE: f64 = 0.005;

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Doubt {
    /// Which.
    pub kind: DoubtKind,
    /// For people.
    pub text: String,
}

/// Every reason that the engine knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DoubtKind {
    /// Frames arrived that nobody sent.
    LedgerOpen,
    /// The generator did not reach its rate.
    TxStarved,
    /// The port took less than was offered. dutlab gives no doubt for it: it is the DUT's pressure back, which has a figure.
    HeldBack,
    /// Nobody knows which frames the port refused.
    RefusalsUnknown,
    /// The receiver dropped frames that had reached this host.
    RxDropped,
    /// Nobody knows how many.
    RxDropsUnknown,
    /// Frames came too late to tell whether they came twice.
    LedgerGuessed,
    /// The order of frames on the link is not known.
    ReorderingUnknown,
    /// Some extents are not.
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
    /// A port failed. dutlab's trial has no result then.
    PortFailed,
}

impl DoubtKind {
    /// Whether it only says what the user should know: the result is none the worse.
    #[must_use]
    pub const fn is_note(self) -> bool {
        matches!(
            self,
            Self::ReorderingUnknown | Self::ReorderingPartlyKnown | Self::ForeignFrames | Self::LatencyUnknown
        )
    }
}
