//! What the xdp back end can do on an interface, and why not.

use crate::attach::{AttachMode, Attached};
use crate::error::{Why, XdpError};
use crate::system::{self, Interface};
use crate::{objects, template};
use aya::EbpfLoader;
use aya::programs::{ProgramError, Xdp};
use std::sync::OnceLock;

/// What was found. An `Err` says why not, and what to do about it.
#[derive(Debug)]
pub struct XdpProbe {
    /// The driver.
    pub driver: String,
    /// The MTU.
    pub mtu: u32,
    /// Receive queues in use; `None`: the driver does not say.
    pub rx_queues: Option<u32>,
    /// Whether live frames can be sent.
    pub send: Result<(), XdpError>,
    /// The longest frame that can be sent, in bytes without FCS.
    pub longest_frame: usize,
    /// Whether refused frames can be told (kernel BTF).
    pub refusals_known: bool,
    /// How a program is attached, which was tried with one that leaves every frame to the kernel.
    pub receive: Result<AttachMode, XdpError>,
}

/// Looks at an interface of the calling thread's network namespace. Nothing is sent, and nothing stays attached.
///
/// # Errors
/// When there is no such interface.
pub fn probe(iface: &str) -> Result<XdpProbe, XdpError> {
    let facts = Interface::find(iface)?;
    let loaded = load(iface, facts.index);
    // The error has no copy: the second question gets its own answer.
    let send = loaded.and_then(|()| facts.can_send(60)).and_then(|()| live_frames(iface));
    let receive =
        load(iface, facts.index).and_then(|()| Attached::reserve(iface, facts.index, facts.mtu)).map(|held| held.mode);
    Ok(XdpProbe {
        mtu: facts.mtu,
        rx_queues: facts.rx_queues(),
        longest_frame: template::LONGEST.min(facts.mtu as usize + 14 + 4),
        refusals_known: system::kernel_types().is_some(),
        driver: facts.driver,
        send,
        receive,
    })
}

/// Asks what tells of the kernel and of this process alone, until it has been answered well once: each takes 10 to 30 ms.
fn once(done: &OnceLock<()>, ask: impl FnOnce() -> Result<(), XdpError>) -> Result<(), XdpError> {
    if done.get().is_none() {
        ask()?;
    }
    done.get_or_init(|| ());
    Ok(())
}

/// Loads the smallest program: permission, system call, verifier.
fn load(iface: &str, index: u32) -> Result<(), XdpError> {
    static DONE: OnceLock<()> = OnceLock::new();
    once(&DONE, || load_bare_drop(iface, index))
}

fn load_bare_drop(iface: &str, index: u32) -> Result<(), XdpError> {
    let mut bpf = EbpfLoader::new()
        .override_global("egress_ifindex", &index, true)
        .load(objects::REFERENCE)
        .map_err(|e| XdpError::load(iface, "bpf(BPF_MAP_CREATE)", &e))?;
    let program: &mut Xdp = bpf
        .program_mut("bare_drop")
        .and_then(|p| p.try_into().ok())
        .ok_or_else(|| XdpError::load(iface, "load", &ProgramError::UnexpectedProgramType))?;
    program.load().map_err(|e| XdpError::load(iface, "bpf(BPF_PROG_LOAD)", &e))
}

/// Runs one live frame that is dropped at once: nothing leaves.
fn live_frames(iface: &str) -> Result<(), XdpError> {
    static DONE: OnceLock<()> = OnceLock::new();
    once(&DONE, || run_live_frame(iface))
}

fn run_live_frame(iface: &str) -> Result<(), XdpError> {
    use aya::programs::TestRun as _;
    let mut bpf =
        EbpfLoader::new().load(objects::REFERENCE).map_err(|e| XdpError::load(iface, "bpf(BPF_MAP_CREATE)", &e))?;
    let program: &mut Xdp = bpf.program_mut("bare_drop").and_then(|p| p.try_into().ok()).expect("the object has it");
    program.load().map_err(|e| XdpError::load(iface, "bpf(BPF_PROG_LOAD)", &e))?;
    let mut options = aya::TestRunOptions::new();
    let frame = [0_u8; 60];
    options.data_in = Some(&frame);
    options.attrs = aya::TestRunAttrs::new().xdp_live_frames(1);
    match program.test_run(options) {
        Ok(_) => Ok(()),
        Err(e) => {
            let e = XdpError::load(iface, "bpf(BPF_PROG_TEST_RUN)", &e);
            if e.source.as_ref().and_then(std::io::Error::raw_os_error) == Some(libc::EINVAL) {
                return Err(XdpError { why: Why::KernelTooOld { lacks: "live frames", since: "5.18" }, ..e });
            }
            Err(e)
        }
    }
}
