//! Ethernet II headers (IEEE 802.3 clause 3.2).

use crate::u16_at;
use std::fmt;
use std::str::FromStr;

/// Length of the header in bytes.
pub const LEN: usize = 14;
/// `EtherType` of IPv4 (RFC 894).
pub const IPV4: u16 = 0x0800;
/// `EtherType` of IPv6 (RFC 2464).
pub const IPV6: u16 = 0x86dd;

/// A MAC address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0;
        write!(f, "{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", b[0], b[1], b[2], b[3], b[4], b[5])
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a MAC address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadMac(pub String);

impl fmt::Display for BadMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a MAC address; write six hex bytes, as in 02:00:00:00:00:01", self.0)
    }
}

impl std::error::Error for BadMac {}

impl FromStr for Mac {
    type Err = BadMac;
    fn from_str(text: &str) -> Result<Self, BadMac> {
        let bad = || BadMac(text.to_owned());
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let two_digits = |p: &&str| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit());
            let part = parts.next().filter(two_digits).ok_or_else(bad)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| bad())?;
        }
        if parts.next().is_some() { Err(bad()) } else { Ok(Self(mac)) }
    }
}

/// A view on a frame.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a>(&'a [u8]);

impl<'a> Packet<'a> {
    /// `None` when `b` is shorter than a header.
    #[must_use]
    pub fn new(b: &'a [u8]) -> Option<Self> {
        (b.len() >= LEN).then_some(Self(b))
    }

    /// Destination MAC.
    #[must_use]
    pub fn destination(&self) -> Mac {
        Mac(*self.0.first_chunk().unwrap_or(&[0; 6]))
    }

    /// Source MAC.
    #[must_use]
    pub fn source(&self) -> Mac {
        Mac(*self.0[6..].first_chunk().unwrap_or(&[0; 6]))
    }

    /// `EtherType`, or length of an 802.3 frame.
    #[must_use]
    pub fn ethertype(&self) -> u16 {
        u16_at(self.0, 12)
    }

    /// Bytes behind the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[LEN..]
    }
}

/// The meaning of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Destination MAC.
    pub destination: Mac,
    /// Source MAC.
    pub source: Mac,
    /// Type of the payload.
    pub ethertype: u16,
}

impl Repr {
    /// The meaning of a view.
    #[must_use]
    pub fn parse(p: &Packet<'_>) -> Self {
        Self { destination: p.destination(), source: p.source(), ethertype: p.ethertype() }
    }

    /// Writes the header to the start of `b`, which has at least [`LEN`] bytes.
    pub fn emit(&self, b: &mut [u8]) {
        b[..6].copy_from_slice(&self.destination.0);
        b[6..12].copy_from_slice(&self.source.0);
        b[12..14].copy_from_slice(&self.ethertype.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];

    fn repr() -> Repr {
        Repr { destination: Mac([2, 0, 0, 0, 0, 1]), source: "02:00:00:00:00:02".parse().unwrap(), ethertype: IPV4 }
    }

    #[test]
    fn bytes_are_read_as_their_meaning() {
        assert_eq!(Repr::parse(&Packet::new(&BYTES).unwrap()), repr());
    }

    #[test]
    fn the_meaning_is_written_as_its_bytes() {
        let mut b = [0; LEN];
        repr().emit(&mut b);
        assert_eq!(b, BYTES);
    }

    #[test]
    fn a_short_buffer_is_no_frame() {
        assert!(Packet::new(&BYTES[..13]).is_none());
    }

    #[test]
    fn macs_are_read_strictly() {
        assert_eq!("02:00:00:00:00:0F".parse::<Mac>().unwrap().to_string(), "02:00:00:00:00:0f");
        for bad in
            ["", "02:00:00:00:00", "02:00:00:00:00:01:02", "2:0:0:0:0:1", "02:00:00:00:00:+1", "02-00-00-00-00-01"]
        {
            assert!(bad.parse::<Mac>().is_err(), "{bad}");
        }
    }
}
