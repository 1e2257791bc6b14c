//! What the xdp back end can do on an interface, and why not.

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
    /// On a card whose driver has XDP: the place that the program was attached to, for all the while that the port is open.
    /// Elsewhere programs come and go at no cost.
    pub kept: Option<Place>,
    /// How long the link was down when the program was attached.
    pub down: Nanos,
}

/// How long a link must be there to count as back.
const STEADY: Nanos = Nanos(200_000_000);
/// How long a link that was there is waited for, and one that was not: the end of another port may just have reset it.
const BACK_S: u64 = 20;
const THERE_S: u64 = 3;
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until a link has been there for [`STEADY`]. `look` gives the time, and whether it is there. Returns how long it was
/// not; `None` if it is not back after `most`.
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

/// Looks at an interface of the calling thread's network namespace. Nothing is sent, and nothing stays attached but what is
/// `kept`.
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
                // Some drivers say only now that they send.
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

/// What to say of a link that was down for so long when it was opened.
#[must_use]
pub fn down_note(down: Nanos) -> Option<String> {
    (down > Nanos::ZERO)
        .then(|| format!("the driver took the link down for {:.1} s when a program was attached", down.seconds()))
}

/// Waits until the link is there for good; returns how long it was not.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A look each 10 ms at a link that is down between the two times, in ms.
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
