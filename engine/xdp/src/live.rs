//! Sending thread, which runs inside long live-frame calls.

use crate::contract::{HALT_ASKED, HALT_NO};
use crate::error::{Why, XdpError};
use crate::shared::{load32, store32};
use crate::system;
use aya::programs::{TestRun as _, Xdp};
use aya::{Ebpf, TestRunAttrs, TestRunOptions};
use dutlab_port::cpu;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// A loaded program and its settings for the kernel.
pub(crate) struct Call {
    pub(crate) iface: String,
    pub(crate) bpf: Arc<Ebpf>,
    pub(crate) program: &'static str,
    /// Initial content of every live frame.
    pub(crate) page: Vec<u8>,
    pub(crate) batch: u32,
    /// CPU of its thread; `None`: the CPU on which it starts.
    pub(crate) cpu: Option<u32>,
    pub(crate) words: Words,
}

/// Words of mappings that outlive the thread: `XdpSender` joins the thread before it unmaps.
pub(crate) struct Words {
    pub(crate) halt: *mut u32,
    pub(crate) tid: *mut u32,
}
// SAFETY: see above; all accesses are atomic.
unsafe impl Send for Words {}

impl Words {
    fn is_halted(&self) -> bool {
        // SAFETY: the mapping's own word, which lives longer than this thread.
        unsafe { load32(self.halt) != HALT_NO }
    }

    /// Sets the halt flag, so that a failed thread does not seem to be running.
    fn halt(&self) {
        if !self.is_halted() {
            // SAFETY: the mapping's own word, which lives longer than this thread.
            unsafe { store32(self.halt, HALT_ASKED) };
        }
    }

    fn tell_tid(&self, tid: i32) {
        // SAFETY: the mapping's own word, which lives longer than this thread.
        unsafe { store32(self.tid, tid.cast_unsigned()) };
    }
}

impl Call {
    /// Runs the sending thread. One call sends up to 2^32 frames; long trials at high rates make several, 25 ms apart.
    pub(crate) fn run(self, tid: &AtomicI32) -> Result<(), XdpError> {
        system::block_signals();
        // Other threads that know this one may query its CPU.
        let settled = self.settle_down();
        tid.store(system::thread_id(), Ordering::Release);
        self.words.tell_tid(system::thread_id());
        let result = settled.and_then(|()| self.send());
        self.words.halt();
        result
    }

    fn settle_down(&self) -> Result<(), XdpError> {
        let Some(cpu) = self.cpu else { return Ok(()) };
        cpu::pin(cpu).map_err(|e| XdpError::system(&self.iface, "sched_setaffinity", e))
    }

    fn send(&self) -> Result<(), XdpError> {
        let Some(Ok(program)) = self.bpf.program(self.program).map(<&Xdp>::try_from) else {
            return Err(XdpError::new(&self.iface, "load", Why::Other(format!("no program {}", self.program))));
        };
        while !self.words.is_halted() {
            let mut options = TestRunOptions::new();
            options.data_in = Some(&self.page);
            options.repeat = u32::MAX;
            options.attrs = TestRunAttrs::new().xdp_live_frames(self.batch);
            let Err(e) = program.test_run(options) else { continue };
            let e = XdpError::load(&self.iface, "bpf(BPF_PROG_TEST_RUN)", &e);
            match e.source.as_ref().and_then(io::Error::raw_os_error) {
                Some(libc::EINTR) => {}
                Some(libc::EINVAL) => {
                    return Err(XdpError { why: Why::KernelTooOld { lacks: "live frames", since: "5.18" }, ..e });
                }
                _ => return Err(e),
            }
        }
        Ok(())
    }
}
