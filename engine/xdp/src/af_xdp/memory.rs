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
    /// How many send, a power of two or none.
    pub send: u32,
    /// Whether they lie in huge pages.
    pub huge: bool,
}

impl Umem {
    /// Buffers of `chunk` bytes, in huge pages if the system has some to spare.
    pub fn map(iface: &str, chunk: u32, receive: u32, send: u32) -> Result<Self, PortError> {
        let length = chunk as usize * (receive + send) as usize;
        let huge = Mapping::huge(length).ok();
        let (huge, memory) = (huge.is_some(), huge.map_or_else(|| Mapping::new(length, None), Ok));
        Ok(Self { memory: memory.map_err(|e| PortError::from_call("mmap", iface, e))?, chunk, receive, send, huge })
    }
}
