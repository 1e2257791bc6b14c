//! Reference loops for benches, and devices with known answers for tests. Not part of a measurement.

use crate::attach::Attached;
use crate::error::{Why, XdpError};
use crate::system;
use aya::maps::{Array, HashMap, Map, PerCpuArray};
use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType, TestRun as _, Xdp};
use aya::util::KernelVersion;
use aya::{Ebpf, EbpfLoader, TestRunAttrs, TestRunOptions};
use std::os::fd::AsFd as _;

/// A bare live-frame loop: sends `frames` copies of `frame` from the calling thread, as fast as the kernel goes.
///
/// # Errors
/// When the interface, the permission or the kernel does not allow it.
///
/// # Panics
/// When the object that was built in lacks its program or map.
pub fn bare_send(iface: &str, frame: &[u8], frames: u32, batch: u32) -> Result<(), XdpError> {
    let index = system::Interface::find(iface)?.index;
    let mut bpf = EbpfLoader::new()
        .override_global("egress_ifindex", &index, true)
        .load(crate::objects::REFERENCE)
        .map_err(|e| XdpError::load(iface, "bpf(BPF_MAP_CREATE)", &e))?;
    let program: &mut Xdp = bpf.program_mut("bare_send").and_then(|p| p.try_into().ok()).expect("the object has it");
    program.load().map_err(|e| XdpError::load(iface, "bpf(BPF_PROG_LOAD)", &e))?;
    let mut options = TestRunOptions::new();
    options.data_in = Some(frame);
    options.repeat = frames;
    options.attrs = TestRunAttrs::new().xdp_live_frames(batch);
    program.test_run(options).map_err(|e| XdpError::load(iface, "bpf(BPF_PROG_TEST_RUN)", &e))?;
    Ok(())
}

/// A bare drop counter on an interface.
pub struct BareDrop {
    bpf: Ebpf,
    _attached: Attached,
}

impl BareDrop {
    /// Attaches it.
    ///
    /// # Errors
    /// When the interface, the permission or the kernel does not allow it, or another XDP program is attached.
    ///
    /// # Panics
    /// When the object that was built in lacks its program or map.
    pub fn attach(iface: &str) -> Result<Self, XdpError> {
        let facts = system::Interface::find(iface)?;
        let mut bpf = EbpfLoader::new()
            .load(crate::objects::REFERENCE)
            .map_err(|e| XdpError::load(iface, "bpf(BPF_MAP_CREATE)", &e))?;
        let program: &mut Xdp =
            bpf.program_mut("bare_drop").and_then(|p| p.try_into().ok()).expect("the object has it");
        let failed = |e| XdpError::load(iface, "bpf(BPF_PROG_LOAD)", &e);
        program.load().map_err(failed)?;
        let attached = Attached::new(iface, facts.index, facts.mtu, program.fd().map_err(failed)?.as_fd())?;
        Ok(Self { bpf, _attached: attached })
    }

    /// Returns the number of frames dropped so far.
    ///
    /// # Panics
    /// When the object that was built in lacks its program or map.
    #[must_use]
    pub fn count(&self) -> u64 {
        let map = self.bpf.map("reference_count").expect("the object has it");
        let counts = PerCpuArray::<_, u64>::try_from(map).expect("a per-CPU array of u64");
        counts.get(&0, 0).map_or(0, |n| n.iter().sum())
    }
}

/// Deliberate fault of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// Drops every n-th frame.
    Drops(u64),
    /// Sends every n-th frame twice.
    Duplicates(u64),
    /// Swaps the last two of each n frames.
    Swaps(u64),
    /// Passes this many frames a second.
    Polices {
        /// Frames a second.
        pps: u64,
        /// Size of the bucket in frames.
        depth: u32,
    },
    /// Sends each frame this many ns after its send time.
    Holds(u64),
    /// Flips a bit in the payload of every n-th frame.
    Corrupts(u64),
    /// Translates addresses and ports, and lets answers of known connections back in.
    Translates {
        /// New connections a second.
        per_s: u64,
        /// Size of the bucket in new connections.
        depth: u32,
        /// Largest number of known connections.
        most: u32,
    },
}

/// A device between two interfaces of one network namespace, for UDP over IPv4. Dropping it removes it.
pub struct Device {
    bpf: Ebpf,
}

impl Device {
    /// Makes a device that sends frames entering `from` out of `to`.
    ///
    /// # Errors
    /// When the interfaces, the permission or the kernel (6.6) does not allow it.
    ///
    /// # Panics
    /// When the object that was built in lacks its program or map.
    pub fn between(from: &str, to: &str, wrong: Wrong) -> Result<Self, XdpError> {
        let out = system::Interface::find(to)?.index;
        let (kind, n, depth) = match wrong {
            Wrong::Drops(n) => (1_u32, n, 1),
            Wrong::Duplicates(n) => (2, n, 1),
            Wrong::Swaps(n) => (3, n, 1),
            Wrong::Polices { pps, depth } => (4, pps, depth),
            Wrong::Holds(ns) => (5, ns, 1),
            Wrong::Corrupts(n) => (6, n, 1),
            Wrong::Translates { per_s, depth, .. } => (7, per_s, depth),
        };
        if KernelVersion::current().is_ok_and(|v| v < KernelVersion::new(6, 6, 0)) {
            return Err(XdpError::new(
                from,
                "bpf(BPF_LINK_CREATE)",
                Why::KernelTooOld { lacks: "links for tc", since: "6.6" },
            ));
        }
        let most = if let Wrong::Translates { most, .. } = wrong { most } else { 0 };
        let (back, public) = (system::Interface::find(from)?.index, public_address(to));
        let mut bpf = EbpfLoader::new()
            .override_global("kind", &kind, true)
            .override_global("out_ifindex", &out, true)
            .override_global("depth", &depth, true)
            .override_global("n", &n, true)
            .override_global("most", &most, true)
            .override_global("back_ifindex", &back, true)
            .override_global("public_address", &public, true)
            .load(crate::objects::DEVICES)
            .map_err(|e| XdpError::load(from, "bpf(BPF_MAP_CREATE)", &e))?;
        attach(&mut bpf, "device", from)?;
        if most > 0 {
            attach(&mut bpf, "answer", to)?;
        }
        Ok(Self { bpf })
    }

    /// Deletes every connection of a translator; its bucket is full again.
    ///
    /// # Panics
    /// When the object that was built in lacks its map.
    pub fn forget(&mut self) {
        let map = self.bpf.map_mut("connections").expect("the object has it");
        let mut connections = HashMap::<_, [u32; 3], u32>::try_from(map).expect("a hash of connections");
        let known: Vec<_> = connections.keys().flatten().collect();
        for connection in known {
            // An entry that no longer exists is also forgotten.
            let _ = connections.remove(&connection);
        }
        let map = self.bpf.map_mut("device_state").expect("the object has it");
        let mut state = Array::<_, State>::try_from(map).expect("an array of states");
        let _ = state.get(&0, 0).and_then(|s| state.set(0, [s[0], s[1], s[2], 0, 0, 0], 0));
    }

    /// Returns the number of frames that came, and of those that got the fault.
    ///
    /// # Panics
    /// When the object that was built in lacks its program or map.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        // struct state: lock, held_len, seen, wronged, tokens, last_ns, known.
        let map = self.bpf.map("device_state").expect("the object has it");
        let Map::Array(_) = map else { return (0, 0) };
        let state = Array::<_, State>::try_from(map).and_then(|a| a.get(&0, 0));
        state.map_or((0, 0), |s| (s[1], s[2]))
    }
}

/// `struct state` of `devices.bpf.c`, word by word.
type State = [u64; 6];

/// Attaches a program to the ingress of an interface.
fn attach(bpf: &mut Ebpf, name: &str, iface: &str) -> Result<(), XdpError> {
    let program: &mut SchedClassifier =
        bpf.program_mut(name).and_then(|p| p.try_into().ok()).expect("the object has it");
    program.load().map_err(|e| XdpError::load(iface, "bpf(BPF_PROG_LOAD)", &e))?;
    let options = TcAttachOptions::TcxOrder(LinkOrder::default());
    program
        .attach_with_options(iface, TcAttachType::Ingress, options)
        .map_err(|e| XdpError::load(iface, "bpf(BPF_LINK_CREATE)", &e))?;
    Ok(())
}

/// Returns the first IPv4 address of an interface, as in a frame; 0 without one.
fn public_address(iface: &str) -> u32 {
    let addresses = dutlab_port::iface::Interface::read(iface).map(|read| read.addresses).unwrap_or_default();
    let four = addresses.iter().find_map(|network| match network.address {
        std::net::IpAddr::V4(address) => Some(u32::from_ne_bytes(address.octets())),
        std::net::IpAddr::V6(_) => None,
    });
    four.unwrap_or(0)
}
