//! SIGTERM, SIGINT and SIGHUP as an event to wait for.

use std::io;

/// The signals that ask a program to end. They are blocked in this thread and in all threads that it starts later, so
/// that only [`wait`](Self::wait) takes them.
pub struct Termination {
    set: libc::sigset_t,
}

impl Termination {
    /// Blocks the signals. Call it before any other thread is started.
    pub fn block() -> io::Result<Self> {
        // SAFETY: sigset_t is a plain array of bits, which sigemptyset initialises.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is a valid set, and the signals exist.
        let status = unsafe {
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::sigaddset(&raw mut set, libc::SIGINT);
            libc::sigaddset(&raw mut set, libc::SIGHUP);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())
        };
        if status == 0 { Ok(Self { set }) } else { Err(io::Error::from_raw_os_error(status)) }
    }

    /// Waits for one of them.
    pub fn wait(&self) {
        let mut signal = 0;
        // SAFETY: `set` is a valid set; the call writes the signal's number.
        unsafe { libc::sigwait(&raw const self.set, &raw mut signal) };
    }
}
