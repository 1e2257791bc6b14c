//! A network namespace of the test's own.

/// Moves this thread into a new network namespace, which ends with it. False without the permission; panics if that was promised.
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
