//! System functions for the back end: interfaces, namespaces, CPUs, signals.

use crate::error::{Why, XdpError};
use aya::Btf;
use dutlab_port::{ethtool, link, speed, sys};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType};
use rustix::thread::{Pid, sched_getaffinity};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt as _;
use std::sync::OnceLock;

/// Returns the kernel's types; `None` if it does not provide them. Read once: they are megabytes, and do not change.
pub(crate) fn kernel_types() -> Option<&'static Btf> {
    static TYPES: OnceLock<Option<Btf>> = OnceLock::new();
    TYPES.get_or_init(|| Btf::from_sys_fs().ok()).as_ref()
}

/// Returns the inode of the calling thread's network namespace.
pub(crate) fn netns_inode() -> io::Result<u32> {
    std::fs::metadata("/proc/thread-self/ns/net").map(|m| u32::try_from(m.ino()).unwrap_or(u32::MAX))
}

/// Returns device and inode of this process's pid namespace.
pub(crate) fn pidns() -> io::Result<(u64, u64)> {
    std::fs::metadata("/proc/self/ns/pid").map(|m| (m.dev(), m.ino()))
}

/// Returns the interface's index, in the calling thread's network namespace.
pub(crate) fn index_of(iface: &str) -> Option<u32> {
    let socket = sys::socket(AddressFamily::INET, SocketType::DGRAM).ok()?;
    name_to_index(socket, iface).ok()
}

pub(crate) fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Returns true if a thread of this process may run on this CPU, and on no other; false if it has ended.
pub(crate) fn is_pinned_to(tid: i32, cpu: u32) -> bool {
    let set = Pid::from_raw(tid).and_then(|tid| sched_getaffinity(Some(tid)).ok());
    set.is_some_and(|set| set.count() == 1 && set.is_set(cpu as usize))
}

/// Returns the CPU that a thread of this process last ran on (field 39 of `proc_pid_stat(5)`).
pub(crate) fn cpu_of(tid: i32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).ok()?;
    // The second field is a name in parentheses, which may contain any character.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(39 - 3)?.parse().ok()
}

/// Returns one above the highest number of a possible CPU.
///
/// Read from the kernel: a C library may return the CPUs that this process is allowed to use (musl does), but programs
/// in the kernel run on the others too.
pub(crate) fn possible_cpus() -> Result<usize, XdpError> {
    const FILE: &str = "/sys/devices/system/cpu/possible";
    let text = std::fs::read_to_string(FILE).map_err(|e| XdpError {
        why: Why::Other(format!(
            "{FILE} cannot be read (mount -t sysfs sysfs /sys): how many CPUs may count is unknown"
        )),
        ..XdpError::system("", "open", e)
    })?;
    cpus_in(&text)
        .ok_or_else(|| XdpError::new("", "read", Why::Other(format!("{FILE} holds {text:?}, no list of CPUs"))))
}

/// Returns one above the highest number in a list of CPUs such as `0-3,8` (Documentation/admin-guide/cputopology.rst of
/// the kernel).
fn cpus_in(list: &str) -> Option<usize> {
    let highest = |range: &str| range.rsplit('-').next()?.parse::<usize>().ok();
    list.trim().split(',').map(highest).collect::<Option<Vec<_>>>()?.into_iter().max().map(|cpu| cpu + 1)
}

/// Returns the signal that interrupts a live-frame call. Its handler does nothing.
fn wake_signal() -> i32 {
    libc::SIGRTMIN() + 7
}

extern "C" fn on_wake(_: i32) {}

/// Installs the handler once per process, so that the wake signal does not kill it.
pub(crate) fn install_wake_signal() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    INSTALLED
        .get_or_init(|| {
            // SAFETY: a zeroed sigaction is an empty one; the handler touches nothing.
            let result = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_wake as extern "C" fn(i32) as usize;
                libc::sigaction(wake_signal(), &raw const action, std::ptr::null_mut())
            };
            if result == 0 { Ok(()) } else { Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)) }
        })
        .map_err(io::Error::from_raw_os_error)
}

/// Blocks all signals except the wake signal for the calling thread: others belong to the program's main thread.
pub(crate) fn block_signals() {
    // SAFETY: the sets are filled before they are used; the calls only change this thread's mask.
    unsafe {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(set.as_mut_ptr());
        libc::sigdelset(set.as_mut_ptr(), wake_signal());
        libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// Interrupts a thread of this process.
pub(crate) fn wake(tid: i32) {
    // SAFETY: sends a signal that has a handler; a thread that has ended gives ESRCH, which is harmless.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, wake_signal()) };
}

/// Properties of an interface.
#[derive(Debug, Clone)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) mtu: u32,
    pub(crate) driver: String,
    /// Bits of `enum netdev_xdp_act`; `None`: not reported by the kernel (before 6.3).
    pub(crate) xdp_features: Option<u64>,
}

/// The interface takes frames that XDP redirects to it (`NETDEV_XDP_ACT_NDO_XMIT`).
pub(crate) const NDO_XMIT: u64 = 4;

impl Interface {
    pub(crate) fn find(iface: &str) -> Result<Self, XdpError> {
        let facts = link::named(iface).map_err(|e| XdpError::system(iface, "netlink(RTM_GETLINK)", e))?;
        Ok(Self {
            name: iface.into(),
            index: facts.index,
            mtu: facts.mtu,
            driver: ethtool::driver(iface).unwrap_or_else(|_| "unknown".into()),
            xdp_features: link::xdp_features(facts.index).ok().flatten(),
        })
    }

    /// Returns true if it is up with a carrier now.
    pub(crate) fn is_up(&self) -> bool {
        link::named(&self.name).is_ok_and(|l| l.index == self.index && l.up && l.carrier)
    }

    /// Returns the number of receive queues in use; `None`: not reported by the driver.
    pub(crate) fn rx_queues(&self) -> Option<u32> {
        ethtool::queues(&self.name).map(|q| q.receive)
    }

    /// Returns true if the driver runs native programs inside a poll of a queue (NAPI), as all do but one: TUN and TAP
    /// run them in the system call of the process that writes a frame (`tun_build_skb` of drivers/net/tun.c).
    pub(crate) fn polls(&self) -> bool {
        self.driver != "tun"
    }

    /// Returns true for a card, or a hypervisor's emulation of one. Its driver may reset rings and link for a program,
    /// and send only while a program is attached: see docs/reference/drivers.md.
    pub(crate) fn is_card(&self) -> bool {
        self.driver != "unknown" && speed::has_wire(&self.driver)
    }

    /// Returns true if the kernel does not restore a live frame that comes back changed by the driver:
    /// `__virtnet_xdp_xmit_one` puts 12 bytes in front of each, so that frames grew with every turn. Linux 6.3, the
    /// first that reports features, checks for changes (`frame_was_changed` of `net/bpf/test_run.c`); older kernels
    /// restore a frame only if our program changed its length.
    pub(crate) fn keeps_what_drivers_wrote(&self) -> bool {
        self.is_card() && self.xdp_features.is_none()
    }

    /// Checks that a frame of `longest` bytes (without FCS) can leave by redirection.
    pub(crate) fn can_send(&self, longest: usize) -> Result<(), XdpError> {
        // The kernel allows the MTU, an Ethernet header and one VLAN tag.
        if longest > self.mtu as usize + 14 + 4 {
            return Err(XdpError::new(&self.name, "plan", Why::MtuTooSmall { frame: longest, mtu: self.mtu }));
        }
        match self.xdp_features {
            Some(f) if f & NDO_XMIT == 0 => self.without_redirect(),
            _ => Ok(()),
        }
    }

    /// Returns the reason why it takes no redirected frames.
    pub(crate) fn without_redirect(&self) -> Result<(), XdpError> {
        let why = match self.driver.as_str() {
            "veth" => Why::PeerWithoutNapi,
            _ => Why::NoRedirect { driver: self.driver.clone() },
        };
        Err(XdpError::new(&self.name, "netdev-genl dev-get", why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        for (list, cpus) in [("0\n", 1), ("0-1\n", 2), ("0-3,8\n", 9), ("0,2-5,7-63\n", 64), ("5-7,0-1", 8)] {
            assert_eq!(cpus_in(list), Some(cpus), "{list}");
        }
        for bad in ["", "\n", "0-", "x", "0-1,,2", "-"] {
            assert_eq!(cpus_in(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_thread_runs_on_the_cpu_that_it_is_pinned_to() {
        std::thread::spawn(|| {
            let cpu = dutlab_port::cpu::allowed()[0];
            dutlab_port::cpu::pin(cpu).unwrap();
            assert_eq!(cpu_of(thread_id()), Some(cpu));
        })
        .join()
        .unwrap();
        assert_eq!(cpu_of(0), None);
    }

    #[test]
    fn a_thread_that_may_use_one_cpu_still_counts_those_of_the_kernel() {
        let before = possible_cpus().unwrap();
        let highest = std::fs::read_dir("/sys/devices/system/cpu")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_prefix("cpu")?.parse::<usize>().ok());
        assert!(before > highest.max().unwrap());
        std::thread::spawn(move || {
            dutlab_port::cpu::pin(0).unwrap();
            assert_eq!(possible_cpus().unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
