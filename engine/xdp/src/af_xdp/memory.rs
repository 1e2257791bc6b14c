//! Memory of a socket's frames.

use dutlab_port::PortError;
use dutlab_port::mapping::Mapping;

/// The buffers of a socket: those that receive, then those that send.
pub struct Umem {
    /// Their memory.
    pub memory: Mapping,
    /// Bytes in a buffer, a power of two.
    pub chunk: u32,
    /// Number of buffers that receive, a power of two.
    pub receive: u32,
    /// Number of frames that can be sent at the same time: a power of two, or zero.
    pub send: u32,
    /// Number of consecutive buffers for each of these frames.
    pub pages: u32,
    /// True if they are in huge pages.
    pub huge: bool,
}

impl Umem {
    /// Maps buffers of `chunk` bytes, in huge pages if the system has enough free. `send`: number of frames, and of
    /// buffers for each.
    pub fn map(iface: &str, chunk: u32, receive: u32, (send, pages): (u32, u32)) -> Result<Self, PortError> {
        let length = chunk as usize * (receive + send * pages) as usize;
        let huge = Mapping::huge(length).ok();
        let (huge, memory) = (huge.is_some(), huge.map_or_else(|| Mapping::new(length, None), Ok));
        Ok(Self {
            memory: memory.map_err(|e| PortError::from_call("mmap", iface, e))?,
            chunk,
            receive,
            send,
            pages,
            huge,
        })
    }

    /// Returns the length of the longest frame that can be sent, without FCS.
    pub const fn longest(&self) -> u32 {
        self.pages * self.chunk - super::HEADROOM
    }

    /// Returns the ring entries for the frames to send, a power of two.
    pub const fn send_entries(&self) -> u32 {
        (self.send * self.pages).next_power_of_two()
    }
}
