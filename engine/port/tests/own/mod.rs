//! A separate network namespace for a test, and frames to send in it.

use dutlab_units::Nanos;
use dutlab_wire::Probe;
use dutlab_wire::frame::FrameRepr;

/// Moves this thread into a new network namespace, which ends with it. Returns false without the permission; panics if
/// that was promised.
pub fn netns() -> bool {
    // SAFETY: no pointers; other threads stay where they are.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
        return true;
    }
    let promised = std::env::var("DUTLAB_PROMISED").unwrap_or_default();
    assert!(!promised.split(',').any(|c| c == "netns" || c == "all"), "netns was promised and cannot be made: root?");
    eprintln!("SKIPPED: no netns (needs root)");
    false
}

/// Writes the frame with the number `sequence`, of the flow from `source_port`; returns its length.
pub fn frame(sequence: u64, source_port: u16, b: &mut [u8]) -> usize {
    let repr = FrameRepr { source_port, ..FrameRepr::default() };
    repr.emit(&Probe { stream: 1, sequence, trial: 0, sent: Nanos(1) }, &mut b[..60]).unwrap();
    60
}
