//! Memory that a socket's frames lie in.

use dutlab_port::PortError;
use dutlab_port::mapping::Mapping;

/// The buffers of a socket.
pub struct Umem {
    /// Their memory.
    pub memory: Mapping,
    /// Bytes in a buffer, a power of two.
    pub chunk: u32,
}

impl Umem {
    /// `count` buffers of `chunk` bytes.
    pub fn map(iface: &str, chunk: u32, count: u32) -> Result<Self, PortError> {
        let memory = Mapping::new(chunk as usize * count as usize, None);
        Ok(Self { memory: memory.map_err(|e| PortError::from_call("mmap", iface, e))?, chunk })
    }
}
