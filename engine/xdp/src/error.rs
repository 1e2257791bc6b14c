//! Errors of eBPF, each with its cause and its remedy.

use dutlab_port::{ErrorKind, PortError, Refusal};
use std::fmt;
use std::io;

/// Reason why an XDP port cannot do what was requested. The text names the call, the system's answer, the cause and the
/// remedy.
#[derive(Debug)]
pub struct XdpError {
    /// The interface; empty if none is involved.
    pub iface: String,
    /// The call that failed, such as `bpf(BPF_LINK_CREATE)`.
    pub call: &'static str,
    /// The system's error, if a system call failed.
    pub source: Option<io::Error>,
    /// Cause of the error.
    pub why: Why,
}

/// Causes of errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// There is no interface of this name in this network namespace.
    NoSuchInterface,
    /// The interface vanished or went down during the trial.
    PortVanished,
    /// The process may not load eBPF programs or attach them.
    NoPermission,
    /// The kernel has no `bpf` system call, or it is locked down.
    NoBpf,
    /// The kernel lacks a feature.
    KernelTooOld {
        /// The feature.
        lacks: &'static str,
        /// The first kernel with it.
        since: &'static str,
    },
    /// Another XDP program is attached.
    Occupied {
        /// Its id, for `bpftool prog show id N`.
        program_id: u32,
    },
    /// The frame is longer than the interface can send.
    MtuTooSmall {
        /// Bytes without FCS.
        frame: usize,
        /// The interface's MTU.
        mtu: u32,
    },
    /// The driver runs no programs on frames as long as the MTU allows.
    MtuTooLarge {
        /// The interface's MTU.
        mtu: u32,
    },
    /// The frame does not fit into the page of a live frame.
    FrameTooLong {
        /// Bytes without FCS.
        frame: usize,
        /// The longest frame that fits.
        most: usize,
    },
    /// The peer of a veth takes no redirected frames.
    PeerWithoutNapi,
    /// The driver of a card has no queue for the sending CPU.
    NoTransmitQueue {
        /// Its name.
        driver: String,
        /// The CPU, if known.
        cpu: Option<u32>,
    },
    /// The link did not come back after a program was attached.
    NoCarrier {
        /// Seconds of waiting.
        waited_s: u64,
    },
    /// The driver takes no redirected frames.
    NoRedirect {
        /// Its name.
        driver: String,
    },
    /// The plan asks for something that this back end cannot send.
    Plan(String),
    /// The verifier refused a program: a defect of this engine, or a very old kernel.
    Verifier(String),
    /// Any other cause.
    Other(String),
}

impl Why {
    /// Returns the remedy.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::NoSuchInterface => "name an interface of this network namespace (ip link)".into(),
            Self::PortVanished => "look at the kernel log, and repeat the trial when the interface is up".into(),
            Self::NoPermission => "run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; or use the af_packet back end".into(),
            Self::NoBpf => "use a kernel with CONFIG_BPF_SYSCALL and without lockdown; or use the af_packet back end".into(),
            Self::KernelTooOld { since, .. } => format!("use Linux {since} or newer, or the af_packet back end"),
            Self::Occupied { program_id } => format!(
                "see what it is (bpftool prog show id {program_id}), and detach it (ip link set dev IFACE xdp off) or use the af_packet back end"
            ),
            Self::MtuTooSmall { frame, .. } => {
                format!("raise the MTU to {} (ip link set dev IFACE mtu), or send shorter frames", frame.saturating_sub(14))
            }
            Self::MtuTooLarge { .. } => {
                "lower the MTU, for a veth that of its peer too (to 3498 or less: ip link set dev IFACE mtu 3498), or use the af_packet back end".into()
            }
            Self::FrameTooLong { .. } => "use the af_packet back end for jumbo frames".into(),
            Self::PeerWithoutNapi => {
                "turn GRO on at the peer (ethtool -K PEER gro on) or attach an XDP program there; or use the af_packet back end".into()
            }
            Self::NoTransmitQueue { cpu, .. } => {
                let one = cpu.map_or_else(|| "it".into(), |cpu| format!("CPU {cpu}"));
                format!("send from a CPU with a lower number than {one} (cpu: 0), give the card more queues (ethtool -L IFACE combined N), or use the af_xdp back end")
            }
            Self::NoCarrier { .. } => {
                "look at the cable, the other end and the kernel log; the af_packet back end attaches nothing".into()
            }
            Self::NoRedirect { .. } => "use the af_xdp or af_packet back end".into(),
            Self::Plan(_) => "change the plan, or use the af_packet back end".into(),
            Self::Verifier(_) => "report this with the text above; the af_packet back end works meanwhile".into(),
            Self::Other(_) => "see the system's answer; the af_packet back end may work".into(),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchInterface => write!(f, "no such interface here"),
            Self::PortVanished => write!(f, "the interface went away or down during the trial"),
            Self::NoPermission => write!(f, "no permission to load or attach eBPF programs"),
            Self::NoBpf => write!(f, "this kernel offers no bpf system call"),
            Self::KernelTooOld { lacks, since } => write!(f, "this kernel has no {lacks} (new in Linux {since})"),
            Self::Occupied { program_id } => write!(f, "the XDP program with id {program_id} is attached already"),
            Self::MtuTooSmall { frame, mtu } => {
                write!(f, "a frame of {frame} bytes (without FCS) does not fit the MTU of {mtu}")
            }
            Self::MtuTooLarge { mtu } => {
                write!(f, "the MTU of {mtu}, or of a veth's peer, is too large for native XDP")
            }
            Self::FrameTooLong { frame, most } => {
                write!(f, "a frame of {frame} bytes (without FCS) does not fit a page; the longest is {most}")
            }
            Self::PeerWithoutNapi => write!(f, "the veth's peer takes no redirected frames, because it has no NAPI"),
            Self::NoTransmitQueue { driver, cpu } => {
                write!(f, "the driver {driver} has no transmit queue for redirected frames of ")?;
                match cpu {
                    Some(cpu) => write!(f, "CPU {cpu}"),
                    None => write!(f, "the CPU that sends"),
                }
            }
            Self::NoCarrier { waited_s } => {
                write!(f, "attaching a program took the link down, and it did not come back within {waited_s} s")
            }
            Self::NoRedirect { driver } => write!(f, "the driver {driver} takes no redirected frames"),
            Self::Plan(what) | Self::Verifier(what) | Self::Other(what) => f.write_str(what),
        }
    }
}

impl fmt::Display for XdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.iface.is_empty() {
            write!(f, "{}: ", self.iface)?;
        }
        write!(f, "{}: ", self.call)?;
        if let Some(source) = &self.source {
            write!(f, "{source}: ")?;
        }
        self.why.fmt(f)
    }
}

impl std::error::Error for XdpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}

impl XdpError {
    pub(crate) fn new(iface: &str, call: &'static str, why: Why) -> Self {
        Self { iface: iface.into(), call, source: None, why }
    }

    /// Makes the error of a system call, with the usual cause of its errno in eBPF calls.
    pub(crate) fn system(iface: &str, call: &'static str, source: io::Error) -> Self {
        let why = match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Why::NoPermission,
            Some(libc::ENOSYS) => Why::NoBpf,
            Some(libc::ENODEV) => Why::NoSuchInterface,
            _ => Why::Other("the system call failed".into()),
        };
        Self { iface: iface.into(), call, source: Some(source), why }
    }

    /// Converts an error of aya's loader: extracts the system's answer from its chain of causes.
    pub(crate) fn load(iface: &str, call: &'static str, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(e) = at {
            if let Some(io) = e.downcast_ref::<io::Error>() {
                let same =
                    io.raw_os_error().map_or_else(|| io::Error::other(io.to_string()), io::Error::from_raw_os_error);
                let verified = same.raw_os_error() == Some(libc::EACCES) && call == PROG_LOAD;
                let mut found = Self::system(iface, call, same);
                if verified || matches!(found.why, Why::Other(_)) {
                    found.why = Why::Verifier(end_of(&error.to_string()));
                }
                return found;
            }
            at = e.source();
        }
        Self::new(iface, call, Why::Other(error.to_string()))
    }
}

/// Call that makes the verifier check a program. It refuses one with `EACCES`; without permission the call fails with
/// `EPERM`.
const PROG_LOAD: &str = "bpf(BPF_PROG_LOAD)";

/// Returns the last lines of the verifier's log, which contain the reason of the refusal; the whole may have a million
/// lines.
fn end_of(said: &str) -> String {
    const LINES: usize = 12;
    let lines: Vec<_> = said.trim_end().lines().collect();
    if lines.len() <= 2 * LINES {
        return said.to_owned();
    }
    [&lines[..1], &["…"], &lines[lines.len() - LINES..]].concat().join("\n")
}

impl From<XdpError> for PortError {
    fn from(e: XdpError) -> Self {
        let kind = match e.why {
            Why::NoSuchInterface => return Self::NoSuchInterface { iface: e.iface },
            Why::PortVanished | Why::NoCarrier { .. } => ErrorKind::Lost,
            Why::NoPermission => ErrorKind::Permission,
            Why::Other(_) => ErrorKind::Syscall,
            _ => ErrorKind::Unsupported,
        };
        let (text, remedy) = (e.to_string(), e.why.remedy());
        Self::Refused(Box::new(Refusal { kind, call: e.call, text, remedy, source: e.source }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_the_verifier_refused_is_no_missing_permission() {
        let refused = |call, errno| XdpError::load("eth0", call, &io::Error::from_raw_os_error(errno)).why;
        assert!(matches!(refused(PROG_LOAD, libc::EACCES), Why::Verifier(_)));
        assert_eq!(refused(PROG_LOAD, libc::EPERM), Why::NoPermission);
        assert_eq!(refused("bpf(BPF_LINK_CREATE)", libc::EACCES), Why::NoPermission);
        let log = (0..100).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
        let end = end_of(&log);
        assert!(end.starts_with("line 0\n…\nline 88\n") && end.ends_with("line 99"), "{end}");
        assert_eq!(end_of("short"), "short");
    }

    #[test]
    fn a_cpu_without_a_queue_is_named_with_what_to_do() {
        let why = Why::NoTransmitQueue { driver: "i40e".into(), cpu: Some(40) };
        assert_eq!(why.to_string(), "the driver i40e has no transmit queue for redirected frames of CPU 40");
        assert!(why.remedy().contains("lower number than CPU 40"), "{}", why.remedy());
    }
}
