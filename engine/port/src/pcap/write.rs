//! A port that writes sent frames into a file.

use super::{ETHERNET, MAGIC_NANOSECONDS};
use crate::batch::{Batch, Fill, Slot};
use crate::clock;
use crate::error::PortError;
use crate::port::{BurstSender, Handed};
use dutlab_units::{FrameSize, Nanos};
use std::io::{self, BufWriter, Write};

/// Frames in a burst.
const BURST: usize = 64;
/// Room for a frame.
const STRIDE: usize = FrameSize::MAX.without_fcs();

/// A file of frames, each stamped with the time at which it was handed over.
pub struct File {
    out: BufWriter<std::fs::File>,
    path: String,
    memory: Box<[u8]>,
    slots: Box<[Slot]>,
    order: Box<[u32]>,
}

impl File {
    /// Makes a new file. An existing file is never overwritten.
    #[expect(clippy::cast_possible_truncation, reason = "about 600 kB")]
    pub fn create(path: &str) -> Result<Self, PortError> {
        let failed = |source| PortError::Syscall { call: "open", iface: path.to_owned(), source };
        let file = std::fs::File::create_new(path).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => PortError::Unsupported {
                iface: path.to_owned(),
                what: "this file exists already (open: EEXIST)".into(),
                remedy: "name a new file, or remove this one".into(),
            },
            _ => failed(e),
        })?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        out.write_all(&header()).map_err(failed)?;
        Ok(Self {
            out,
            path: path.to_owned(),
            memory: vec![0; STRIDE * BURST].into_boxed_slice(),
            slots: Slot::every(STRIDE as u32, BURST as u32),
            order: (0..BURST as u32).collect(),
        })
    }
}

/// Returns the header of a file, in this machine's byte order.
fn header() -> [u8; 24] {
    let mut h = [0; 24];
    h[..4].copy_from_slice(&MAGIC_NANOSECONDS.to_ne_bytes());
    h[4..6].copy_from_slice(&2_u16.to_ne_bytes());
    h[6..8].copy_from_slice(&4_u16.to_ne_bytes());
    h[16..20].copy_from_slice(&262_144_u32.to_ne_bytes()); // longest frame kept, as tcpdump writes it
    h[20..].copy_from_slice(&ETHERNET.to_ne_bytes());
    h
}

/// Returns the record header of a frame of `length` bytes. The format has 32 bits for the seconds: until 2106.
#[expect(clippy::cast_possible_truncation, reason = "as the format has it")]
fn record(at: Nanos, length: u32) -> [u8; 16] {
    let mut r = [0; 16];
    r[..4].copy_from_slice(&((at.0 / 1_000_000_000) as u32).to_ne_bytes());
    r[4..8].copy_from_slice(&((at.0 % 1_000_000_000) as u32).to_ne_bytes());
    r[8..12].copy_from_slice(&length.to_ne_bytes());
    r[12..].copy_from_slice(&length.to_ne_bytes());
    r
}

impl BurstSender for File {
    fn burst_max(&self) -> usize {
        BURST
    }

    fn send(&mut self, want: usize, fill: &mut dyn Fill) -> Result<Handed, PortError> {
        let want = want.min(BURST);
        fill.fill(0, &mut Batch::new(&mut self.memory, &mut self.slots, &self.order[..want], STRIDE));
        let at = clock::realtime();
        for slot in &self.slots[..want] {
            let frame = &self.memory[slot.start as usize..][..slot.length as usize];
            let written = self.out.write_all(&record(at, slot.length)).and_then(|()| self.out.write_all(frame));
            written.map_err(|source| PortError::Syscall { call: "write", iface: self.path.clone(), source })?;
        }
        Ok(Handed { sent: want, refused: 0 })
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.out.flush().map_err(|source| PortError::Syscall { call: "write", iface: self.path.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcap::Capture;

    #[test]
    fn what_is_written_is_read_back_and_an_existing_file_is_left_alone() {
        let path = std::env::temp_dir().join(format!("dutlab-{}-write.pcap", std::process::id()));
        let name = path.to_str().unwrap();
        let mut file = File::create(name).unwrap();
        let mut frame = |i: usize, b: &mut [u8]| {
            b[..20].fill(u8::try_from(i).unwrap());
            20 + i
        };
        let before = clock::realtime();
        assert_eq!(file.send(3, &mut frame).unwrap().sent, 3);
        file.flush().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let again = File::create(name);
        std::fs::remove_file(&path).unwrap();
        assert!(again.err().unwrap().to_string().contains("exists already"));
        let all: Vec<_> = Capture::new(&bytes).unwrap().map(Result::unwrap).collect();
        assert_eq!(all.iter().map(|r| r.bytes.len()).collect::<Vec<_>>(), [20, 21, 22]);
        assert_eq!(all[2].bytes[..20], [2; 20]);
        assert!(all.iter().all(|r| r.at >= before && r.at <= clock::realtime()));
    }
}
