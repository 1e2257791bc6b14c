//! Opening a socket on one queue.

use super::memory::Umem;
use super::receive::Queue;
use super::rings::{Consumer, Place, Producer};
use super::{HEADROOM, QUEUES, RECEIVE_FRAMES};
use crate::error::PortError;
use crate::iface::Interface;
use crate::sys;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of frames that wait in the kernel at most, in its own accounting; only with a copy.
const KERNEL_BUFFER: i32 = 8 << 20;
/// How often a queue that is held is tried.
const TRIES: u32 = 25;
/// How long between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// The socket of a queue, with its rings.
pub struct Socket {
    fd: Arc<OwnedFd>,
    umem: Arc<Umem>,
    /// Why each frame is copied; `None`: the driver works without a copy.
    pub copies_because: Option<io::Error>,
    rx: Consumer<libc::xdp_desc>,
    fill: Producer<u64>,
    tx: Option<(Producer<libc::xdp_desc>, Consumer<u64>, u32)>,
}

/// What a sender needs of a socket. Its frames are the last ones of the memory.
pub struct SendHalf {
    /// The socket.
    pub fd: Arc<OwnedFd>,
    /// The memory.
    pub umem: Arc<Umem>,
    /// Whether the driver works without a copy.
    pub zero_copy: bool,
    /// What is to be sent.
    pub tx: Producer<libc::xdp_desc>,
    /// What was sent.
    pub completion: Consumer<u64>,
    /// How many frames it has.
    pub frames: u32,
}

impl Socket {
    /// Opens a socket on `queue`, which sends too if `sends`, a number of frames, is above 0. `umem` has room for those
    /// and [`RECEIVE_FRAMES`]. Needs `CAP_NET_RAW`.
    pub fn open(iface: &Interface, queue: u32, umem: Arc<Umem>, sends: u32) -> Result<Self, PortError> {
        let name = iface.name.as_str();
        let fd = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0, name).map_err(|e| match e.errno() {
            Some(libc::EAFNOSUPPORT) => PortError::Unsupported {
                iface: name.to_owned(),
                what: "this kernel has no AF_XDP sockets".into(),
                remedy: "use Linux 5.4 or newer with CONFIG_XDP_SOCKETS, or the af_packet back end".into(),
            },
            _ => e,
        })?;
        let set = |call: &'static str, option: libc::c_int, value: u32| {
            sys::set_option(&fd, libc::SOL_XDP, option, &value).map_err(|e| PortError::from_call(call, name, e))
        };
        let memory = libc::xdp_umem_reg {
            addr: umem.memory.start().as_ptr() as u64,
            len: umem.memory.length() as u64,
            chunk_size: umem.chunk,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        sys::set_option(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &memory)
            .map_err(|e| PortError::from_call("setsockopt(XDP_UMEM_REG)", name, e))?;
        let completions = sends.max(64);
        set("setsockopt(XDP_UMEM_FILL_RING)", libc::XDP_UMEM_FILL_RING, RECEIVE_FRAMES)?;
        set("setsockopt(XDP_UMEM_COMPLETION_RING)", libc::XDP_UMEM_COMPLETION_RING, completions)?;
        set("setsockopt(XDP_RX_RING)", libc::XDP_RX_RING, RECEIVE_FRAMES)?;
        if sends > 0 {
            set("setsockopt(XDP_TX_RING)", libc::XDP_TX_RING, sends)?;
            // The forced form needs CAP_NET_ADMIN in the first user namespace; without it the usual limit stays.
            let _ = sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &KERNEL_BUFFER);
        }
        let at = offsets(&fd, name)?;
        #[expect(clippy::cast_possible_wrap, reason = "constants of the kernel, made for this field")]
        let (fill_page, completion_page) =
            (libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t);
        let place = |page, offsets, size| Place { iface: name, fd: &fd, page, offsets, size };
        let mut fill = Producer::map(place(fill_page, at.fr, RECEIVE_FRAMES))?;
        let completion = Consumer::map(place(completion_page, at.cr, completions))?;
        let rx = Consumer::map(place(libc::XDP_PGOFF_RX_RING, at.rx, RECEIVE_FRAMES))?;
        let tx = if sends > 0 {
            Some((Producer::map(place(libc::XDP_PGOFF_TX_RING, at.tx, sends))?, completion, sends))
        } else {
            None
        };
        for i in 0..RECEIVE_FRAMES {
            fill.put(u64::from(i) * u64::from(umem.chunk));
        }
        fill.publish();
        let copies_because = bind(&fd, iface, queue)?;
        Ok(Self { fd: Arc::new(fd), umem, copies_because, rx, fill, tx })
    }

    /// Parts the socket into what sends, if it does, and what receives.
    pub fn halves(self) -> (Option<SendHalf>, Queue) {
        let Self { fd, umem, copies_because, rx, fill, tx } = self;
        let send = tx.map(|(tx, completion, frames)| SendHalf {
            fd: Arc::clone(&fd),
            umem: Arc::clone(&umem),
            zero_copy: copies_because.is_none(),
            tx,
            completion,
            frames,
        });
        (send, Queue::new(fd, umem, rx, fill))
    }
}

fn offsets(fd: &OwnedFd, name: &str) -> Result<libc::xdp_mmap_offsets, PortError> {
    // SAFETY: plain numbers.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    sys::get_option(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut offsets)
        .map_err(|e| PortError::from_call("getsockopt(XDP_MMAP_OFFSETS)", name, e))?;
    Ok(offsets)
}

/// Binds to a queue, without a copy if the driver can; returns why not, if it cannot. A socket that was just closed lets go of its
/// queue a moment later, so a queue that is held is tried again for a while.
fn bind(fd: &OwnedFd, iface: &Interface, queue: u32) -> Result<Option<io::Error>, PortError> {
    for _ in 0..TRIES {
        match bind_once(fd, iface, queue) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => std::thread::sleep(PAUSE),
            Err(e) => return Err(bind_error(iface, queue, e)),
            Ok(copies_because) => return Ok(copies_because),
        }
    }
    bind_once(fd, iface, queue).map_err(|e| bind_error(iface, queue, e))
}

fn bind_once(fd: &OwnedFd, iface: &Interface, queue: u32) -> io::Result<Option<io::Error>> {
    match bind_as(fd, iface, queue, libc::XDP_ZEROCOPY) {
        Ok(()) => Ok(None),
        // The queue is taken, or we may not: a copy would not change that.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EPERM)) => Err(e),
        Err(why) => bind_as(fd, iface, queue, libc::XDP_COPY).map(|()| Some(why)),
    }
}

fn bind_as(fd: &OwnedFd, iface: &Interface, queue: u32, how: libc::__u16) -> io::Result<()> {
    // SAFETY: plain numbers, for which all zeroes is a valid value.
    let mut address: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
    address.sxdp_family = sys::family(libc::AF_XDP);
    address.sxdp_flags = how | libc::XDP_USE_NEED_WAKEUP;
    address.sxdp_ifindex = iface.index;
    address.sxdp_queue_id = queue;
    #[expect(clippy::cast_possible_truncation, reason = "16 bytes")]
    let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: `address` is `length` bytes that the kernel only reads.
    let status = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bind_error(iface: &Interface, queue: u32, e: io::Error) -> PortError {
    let name = iface.name.clone();
    match e.raw_os_error() {
        Some(libc::EBUSY) => PortError::Unsupported {
            iface: name,
            what: format!("another AF_XDP socket holds queue {queue} (bind: {e})"),
            remedy: "end the program that holds it (ss --xdp), or use the af_packet back end".into(),
        },
        Some(libc::EOPNOTSUPP | libc::EINVAL) => PortError::Unsupported {
            iface: name,
            what: format!("an AF_XDP socket on queue {queue} was refused (bind: {e})"),
            remedy: "use the af_packet back end".into(),
        },
        _ => PortError::from_call("bind", &iface.name, e),
    }
}

/// Queues of an interface.
#[derive(Debug, Clone, Copy)]
pub struct Queues {
    /// Those that receive.
    pub receive: u32,
    /// Those that send.
    pub send: u32,
}

/// Queues in use, as the driver says; one each if it says nothing.
pub fn queues(name: &str) -> Queues {
    const GET_CHANNELS: u32 = 0x3c; // ETHTOOL_GCHANNELS of linux/ethtool.h
    const ONE: Queues = Queues { receive: 1, send: 1 };
    let (Ok(fd), Ok(name)) = (sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0, name), CString::new(name)) else {
        return ONE;
    };
    // struct ethtool_channels: cmd, max_{rx,tx,other,combined}, {rx,tx,other,combined}_count.
    let mut channels = [0_u32; 9];
    channels[0] = GET_CHANNELS;
    // SAFETY: `channels` is a whole ethtool_channels.
    match unsafe { sys::ethtool(&fd, &name, channels.as_mut_ptr().cast()) } {
        Ok(()) => Queues {
            receive: (channels[5] + channels[8]).clamp(1, QUEUES),
            send: (channels[6] + channels[8]).clamp(1, QUEUES),
        },
        Err(_) => ONE,
    }
}

/// Longest frame that a buffer of `chunk` bytes can receive.
pub const fn room(chunk: u32) -> u32 {
    chunk - HEADROOM
}
