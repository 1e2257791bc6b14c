//! Memory that a socket's frames lie in.

use dutlab_port::PortError;
use dutlab_port::mapping::Mapping;

/// The buffers of a socket: those that receive, then those that send.
pub struct Umem {
    /// Their memory.
    pub memory: Mapping,
    /// Bytes in a buffer, a power of two.
    pub chunk: u32,
    /// How many receive, a power of two.
    pub receive: u32,
    /// How many frames can be sent at once: a power of two, or none.
    pub send: u32,
    /// Buffers that each of these has, one behind the other.
    pub pages: u32,
    /// Whether they lie in huge pages.
    pub huge: bool,
}

impl Umem {
    /// Buffers of `chunk` bytes, in huge pages if the system has some to spare. `send` is frames, and buffers of each.
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

    /// The longest frame that can be sent, without FCS.
    pub const fn longest(&self) -> u32 {
        self.pages * self.chunk - super::HEADROOM
    }

    /// Entries that the frames to be sent take in a ring, a power of two.
    pub const fn send_entries(&self) -> u32 {
        (self.send * self.pages).next_power_of_two()
    }
}
