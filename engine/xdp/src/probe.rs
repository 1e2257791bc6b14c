//! Probe of the abilities of the xdp back end on an interface.

use crate::attach::{AttachMode, Place};
use crate::error::{Why, XdpError};
use crate::system::{self, Interface};
use crate::{objects, template};
use aya::EbpfLoader;
use aya::programs::{ProgramError, Xdp};
use dutlab_port::clock;
use dutlab_units::Nanos;
use std::sync::OnceLock;
use std::time::Duration;

/// Result of a probe. An `Err` gives the reason and the remedy.
#[derive(Debug)]
pub struct XdpProbe {
    /// The driver.
    pub driver: String,
    /// The MTU.
    pub mtu: u32,
    /// Receive queues in use; `None`: not reported by the driver.
    pub rx_queues: Option<u32>,
    /// Ok if live frames can be sent.
    pub send: Result<(), XdpError>,
    /// The longest frame that can be sent, in bytes without FCS.
    pub longest_frame: usize,
    /// True if refused frames are detected (needs kernel BTF).
    pub refusals_known: bool,
    /// Mode in which a program is attached. It was tested with a program that leaves every frame to the kernel.
    pub receive: Result<AttachMode, XdpError>,
    /// Place that the test program was attached to, on a card whose driver has XDP; it is kept while the port is open.
    /// On other interfaces programs are attached and detached at no cost.
    pub kept: Option<Place>,
    /// Time for which the link was down when the program was attached.
    pub down: Nanos,
}

/// Time for which a link must be up to count as stable.
const STEADY: Nanos = Nanos(200_000_000);
/// Seconds to wait for a link that was up, and for one that was not: another port may just have reset it by closing.
const BACK_S: u64 = 20;
const THERE_S: u64 = 3;
/// Interval of the checks.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until a link has been up for [`STEADY`]. `look` returns the time, and whether the link is up. Returns how long
/// it was down; `None` if it is not back after `most`.
fn settle(most: Nanos, mut look: impl FnMut() -> (Nanos, bool)) -> Option<Nanos> {
    let (begin, mut there) = look();
    let (mut now, mut since, mut down) = (begin, begin, Nanos::ZERO);
    while !there || now.since(since) < STEADY {
        if now.since(begin) >= most {
            return None;
        }
        let before = (now, there);
        (now, there) = look();
        if !before.1 {
            down = down + now.since(before.0);
            since = now;
        }
    }
    Some(down)
}

/// Probes an interface of the calling thread's network namespace. Sends nothing, and leaves no program attached except
/// in `kept`.
///
/// # Errors
/// When there is no such interface.
pub fn probe(iface: &str) -> Result<XdpProbe, XdpError> {
    let mut facts = Interface::find(iface)?;
    let there = facts.is_up();
    let place = load(iface, facts.index).and_then(|()| Place::reserve(iface, facts.index, facts.mtu));
    let (mut down, mut kept) = (Nanos::ZERO, None);
    let receive = match place {
        Ok(place) => {
            let mode = place.mode();
            if facts.is_card() && mode == AttachMode::Native {
                down = wait_for(&facts, there)?;
                // Some drivers report only now that they send.
                facts = Interface::find(iface)?;
                kept = Some(place);
            }
            Ok(mode)
        }
        Err(e) => Err(e),
    };
    let send = match receive {
        Ok(AttachMode::Generic) => facts.without_redirect(),
        _ => load(iface, facts.index).and_then(|()| facts.can_send(60)),
    };
    let send = send.and_then(|()| live_frames(iface));
    Ok(XdpProbe {
        mtu: facts.mtu,
        rx_queues: facts.rx_queues(),
        longest_frame: template::LONGEST.min(facts.mtu as usize + 14 + 4),
        refusals_known: system::kernel_types().is_some(),
        driver: facts.driver,
        send,
        receive,
        kept,
        down,
    })
}

/// Returns a note on a link that was down for this time when it was opened.
#[must_use]
pub fn down_note(down: Nanos) -> Option<String> {
    (down > Nanos::ZERO)
        .then(|| format!("the driver took the link down for {:.1} s when a program was attached", down.seconds()))
}

/// Waits until the link is stable; returns how long it was down.
pub(crate) fn wait_for(facts: &Interface, was_there: bool) -> Result<Nanos, XdpError> {
    let waited_s = if was_there { BACK_S } else { THERE_S };
    let look = || {
        std::thread::sleep(LOOK);
        (clock::monotonic(), facts.is_up())
    };
    match settle(Nanos(waited_s * 1_000_000_000), look) {
        None if was_there => Err(XdpError::new(&facts.name, "bpf(BPF_LINK_CREATE)", Why::NoCarrier { waited_s })),
        down => Ok(down.filter(|_| was_there).unwrap_or_default()),
    }
}

/// Checks something that depends only on the kernel and this process, until it has succeeded once: each check takes 10
/// to 30 ms.
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

/// Runs one live frame that is dropped at once: no frame leaves.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks every 10 ms a link that is down between the two times, in ms.
    fn flaps(down: &[(u64, u64)], most_ms: u64) -> Option<u64> {
        let mut ms = 0;
        let look = || {
            ms += 10;
            (Nanos(ms * 1_000_000), !down.iter().any(|(from, until)| (*from..*until).contains(&ms)))
        };
        settle(Nanos(most_ms * 1_000_000), look).map(|down| down.0 / 1_000_000)
    }

    #[test]
    fn a_link_that_comes_and_goes_is_waited_for_until_it_stays() {
        assert_eq!(flaps(&[], 1000), Some(0));
        assert_eq!(flaps(&[(0, 500)], 1000), Some(490), "down from the first look on");
        assert_eq!(flaps(&[(50, 500)], 1000), Some(450), "a driver resets it a moment later");
        assert_eq!(flaps(&[(50, 100), (150, 400)], 1000), Some(300), "it is back for a moment only");
        assert_eq!(flaps(&[(50, 5000)], 1000), None);
    }
}
