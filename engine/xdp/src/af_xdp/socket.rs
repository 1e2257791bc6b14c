//! Socket on one queue.

use super::memory::Umem;
use super::receive::Queue;
use super::rings::{Consumer, Place, Producer};
use dutlab_port::PortError;
use dutlab_port::iface::Interface;
use dutlab_port::sys;
use rustix::io::Errno;
use rustix::net::xdp::{self, SocketAddrXdp, SocketAddrXdpFlags, XdpDesc, XdpUmemReg, XdpUmemRegFlags};
use rustix::net::{self, AddressFamily, SocketType, sockopt};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Limit of the bytes that wait in the kernel, in its accounting; only with a copy.
const KERNEL_BUFFER: usize = 8 << 20;
/// `SO_BUSY_POLL`, `SO_PREFER_BUSY_POLL`, `SO_BUSY_POLL_BUDGET` of `asm-generic/socket.h`.
const SO_BUSY_POLL: i32 = 46;
const SO_PREFER_BUSY_POLL: i32 = 69;
const SO_BUSY_POLL_BUDGET: i32 = 70;
/// Longest time in microseconds that a call polls, and largest number of frames that it takes.
const BUSY_US: i32 = 20;
const BUSY_FRAMES: i32 = 64;
/// Number of tries for a queue that is in use.
const TRIES: u32 = 25;
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// The socket of a queue, with its rings.
pub struct Socket {
    fd: Arc<OwnedFd>,
    umem: Arc<Umem>,
    /// Reason why each frame is copied; `None`: the driver works without a copy.
    pub copies_because: Option<io::Error>,
    /// Result of the request that the kernel polls the card's queue within our calls; `None`: not requested.
    pub busy_polling: Option<io::Result<()>>,
    rx: Consumer<XdpDesc>,
    fill: Producer<u64>,
    tx: Option<(Producer<XdpDesc>, Consumer<u64>)>,
}

/// Sending part of a socket. Its frames are the last ones of the memory.
pub struct SendHalf {
    /// The socket.
    pub fd: Arc<OwnedFd>,
    /// The memory.
    pub umem: Arc<Umem>,
    /// True if the driver works without a copy.
    pub zero_copy: bool,
    /// Ring of frames to send.
    pub tx: Producer<XdpDesc>,
    /// Ring of frames that were sent.
    pub completion: Consumer<u64>,
}

impl Socket {
    /// Opens a socket on `queue`, which sends too if `umem` has send buffers. Needs `CAP_NET_RAW`.
    pub fn open(iface: &Interface, queue: u32, umem: Arc<Umem>) -> Result<Self, PortError> {
        let (name, receives) = (iface.name.as_str(), umem.receive);
        let sends = if umem.send > 0 { umem.send_entries() } else { 0 };
        let failed = |call: &'static str| move |e: Errno| PortError::from_call(call, name, e.into());
        let fd = sys::socket(AddressFamily::XDP, SocketType::RAW).map_err(|e| match e.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => PortError::Unsupported {
                iface: name.to_owned(),
                what: "this kernel has no AF_XDP sockets".into(),
                remedy: "use Linux 5.4 or newer with CONFIG_XDP_SOCKETS, or the af_packet back end".into(),
            },
            _ => PortError::from_call("socket", name, e),
        })?;
        let memory = XdpUmemReg {
            addr: umem.memory.start().as_ptr() as u64,
            len: umem.memory.length() as u64,
            chunk_size: umem.chunk,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(&fd, memory).map_err(failed("setsockopt(XDP_UMEM_REG)"))?;
        let completions = sends.max(64);
        sockopt::set_xdp_umem_fill_ring_size(&fd, receives).map_err(failed("setsockopt(XDP_UMEM_FILL_RING)"))?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, completions)
            .map_err(failed("setsockopt(XDP_UMEM_COMPLETION_RING)"))?;
        sockopt::set_xdp_rx_ring_size(&fd, receives).map_err(failed("setsockopt(XDP_RX_RING)"))?;
        if sends > 0 {
            sockopt::set_xdp_tx_ring_size(&fd, sends).map_err(failed("setsockopt(XDP_TX_RING)"))?;
            // The forced form needs CAP_NET_ADMIN in the first user namespace; without it the usual limit stays.
            let _ = sockopt::set_socket_send_buffer_size_force(&fd, KERNEL_BUFFER);
        }
        let at = sockopt::xdp_mmap_offsets(&fd).map_err(failed("getsockopt(XDP_MMAP_OFFSETS)"))?;
        let place = |page, offsets, size| Place { iface: name, fd: &fd, page, offsets, size };
        let mut fill = Producer::map(place(xdp::XDP_UMEM_PGOFF_FILL_RING, at.fr, receives))?;
        let completion = Consumer::map(place(xdp::XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, completions))?;
        let rx = Consumer::map(place(xdp::XDP_PGOFF_RX_RING, at.rx, receives))?;
        let tx = if sends > 0 {
            Some((Producer::map(place(xdp::XDP_PGOFF_TX_RING, at.tx, sends))?, completion))
        } else {
            None
        };
        for i in 0..receives {
            fill.put(u64::from(i) * u64::from(umem.chunk));
        }
        fill.publish();
        let copies_because = bind(&fd, iface, queue, umem.pages)?;
        // With a copy, the calls of a sender would also receive, on the sender's CPU.
        let busy_polling = copies_because.is_none().then(|| poll_busily(&fd));
        Ok(Self { fd: Arc::new(fd), umem, copies_because, busy_polling, rx, fill, tx })
    }

    /// Splits the socket into its sending part, if it has one, and its receiving part.
    pub fn halves(self) -> (Option<SendHalf>, Queue) {
        let Self { fd, umem, copies_because, busy_polling, rx, fill, tx } = self;
        let send = tx.map(|(tx, completion)| SendHalf {
            fd: Arc::clone(&fd),
            umem: Arc::clone(&umem),
            zero_copy: copies_because.is_none(),
            tx,
            completion,
        });
        (send, Queue::new(fd, umem, rx, fill, matches!(busy_polling, Some(Ok(())))))
    }
}

/// Makes the kernel poll the card's queue within our calls, instead of when the card interrupts it
/// (`Documentation/networking/af_xdp.rst`, "busy polling"; Linux 5.11). Needs `CAP_NET_ADMIN`.
fn poll_busily(fd: &OwnedFd) -> io::Result<()> {
    [(SO_PREFER_BUSY_POLL, 1), (SO_BUSY_POLL, BUSY_US), (SO_BUSY_POLL_BUDGET, BUSY_FRAMES)]
        .iter()
        .try_for_each(|(option, value)| sys::set_option(fd, libc::SOL_SOCKET, *option, value))
}

/// Binds to a queue, without a copy if the driver can; otherwise returns the reason. A socket that was just closed
/// releases its queue a moment later, so a queue that is in use is tried again for a while. Frames may take up to
/// `pages` buffers.
fn bind(fd: &OwnedFd, iface: &Interface, queue: u32, pages: u32) -> Result<Option<io::Error>, PortError> {
    for _ in 0..TRIES {
        match bind_once(fd, iface, queue, pages) {
            Err(Errno::BUSY) => std::thread::sleep(PAUSE),
            Err(e) => return Err(bind_error(iface, queue, pages, e)),
            Ok(copies_because) => return Ok(copies_because),
        }
    }
    bind_once(fd, iface, queue, pages).map_err(|e| bind_error(iface, queue, pages, e))
}

fn bind_once(fd: &OwnedFd, iface: &Interface, queue: u32, pages: u32) -> Result<Option<io::Error>, Errno> {
    let several = if pages > 1 { SocketAddrXdpFlags::XDP_USE_SG } else { SocketAddrXdpFlags::empty() };
    let as_that = |how: SocketAddrXdpFlags| {
        let flags = how | several | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        net::bind(fd, &SocketAddrXdp::new(flags, iface.index, queue))
    };
    match as_that(SocketAddrXdpFlags::XDP_ZEROCOPY) {
        Ok(()) => Ok(None),
        // The queue is in use, or the permission is missing: a copy would not change that.
        Err(e @ (Errno::BUSY | Errno::PERM)) => Err(e),
        Err(why) => as_that(SocketAddrXdpFlags::XDP_COPY).map(|()| Some(why.into())),
    }
}

fn bind_error(iface: &Interface, queue: u32, pages: u32, e: Errno) -> PortError {
    let name = iface.name.clone();
    match e {
        Errno::BUSY => PortError::Unsupported {
            iface: name,
            what: format!("another AF_XDP socket holds queue {queue} (bind: {})", io::Error::from(e)),
            remedy: "end the program that holds it (ss --xdp), or use the af_packet back end".into(),
        },
        Errno::INVAL if pages > 1 => PortError::Unsupported {
            iface: name,
            what: format!("frames longer than a page were refused on queue {queue} (bind: {})", io::Error::from(e)),
            remedy: "use Linux 6.6 or newer, a lower MTU, or the af_packet back end".into(),
        },
        Errno::OPNOTSUPP | Errno::INVAL => PortError::Unsupported {
            iface: name,
            what: format!("an AF_XDP socket on queue {queue} was refused (bind: {})", io::Error::from(e)),
            remedy: "use the af_packet back end".into(),
        },
        _ => PortError::from_call("bind", &iface.name, e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_knows_the_options_of_busy_polling() {
        // All sockets have these options.
        let fd = sys::socket(AddressFamily::INET, SocketType::DGRAM).unwrap();
        match poll_busily(&fd) {
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => {}
            other => {
                other.unwrap();
                let mut read = 0;
                sys::get_option(&fd, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, &mut read).unwrap();
                assert_eq!(read, 1);
            }
        }
    }
}
