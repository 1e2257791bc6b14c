//! VLAN tags (IEEE 802.1Q clause 9): customer tags, and service tags outside of them (`QinQ`).

use crate::u16_at;

/// Length of a tag in bytes: it is inserted between the addresses and the `EtherType`.
pub const LEN: usize = 4;
/// Tag protocol identifier of a customer tag.
pub const CUSTOMER: u16 = 0x8100;
/// Tag protocol identifier of a service tag.
pub const SERVICE: u16 = 0x88a8;
/// Service tag of equipment older than 802.1ad.
pub const OLD_SERVICE: u16 = 0x9100;

/// Returns true if an `EtherType` announces a tag.
#[must_use]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, CUSTOMER | SERVICE | OLD_SERVICE)
}

/// A view on a tag: the two bytes of control information and the `EtherType` behind them.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a>(&'a [u8]);

impl<'a> Packet<'a> {
    /// `None` when `b` is shorter than a tag.
    #[must_use]
    pub fn new(b: &'a [u8]) -> Option<Self> {
        (b.len() >= LEN).then_some(Self(b))
    }

    /// VLAN identifier, 12 bits.
    #[must_use]
    pub fn id(&self) -> u16 {
        u16_at(self.0, 0) & 0x0fff
    }

    /// Priority code point, 3 bits.
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.0[0] >> 5
    }

    /// `EtherType` of the payload behind the tag.
    #[must_use]
    pub fn ethertype(&self) -> u16 {
        u16_at(self.0, 2)
    }

    /// Bytes behind the tag's `EtherType`.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[LEN..]
    }
}

/// The meaning of a tag, with the identifier that announces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Tag protocol identifier.
    pub tpid: u16,
    /// VLAN identifier, 12 bits.
    pub id: u16,
    /// Priority code point, 3 bits.
    pub priority: u8,
}

impl Repr {
    /// The meaning of a view that was announced by `tpid`.
    #[must_use]
    pub fn parse(tpid: u16, p: &Packet<'_>) -> Self {
        Self { tpid, id: p.id(), priority: p.priority() }
    }

    /// Writes control information and the `EtherType` of the payload to the start of `b`. The tag's own identifier is
    /// the `EtherType` in the header before it.
    pub fn emit(&self, b: &mut [u8], ethertype: u16) {
        let control = u16::from(self.priority & 7) << 13 | self.id & 0x0fff;
        b[..2].copy_from_slice(&control.to_be_bytes());
        b[2..4].copy_from_slice(&ethertype.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 4] = [0xa0, 0x64, 0x08, 0x00]; // priority 5, VLAN 100, then IPv4

    #[test]
    fn bytes_are_read_as_their_meaning() {
        let p = Packet::new(&BYTES).unwrap();
        assert_eq!(Repr::parse(CUSTOMER, &p), Repr { tpid: CUSTOMER, id: 100, priority: 5 });
        assert_eq!(p.ethertype(), 0x0800);
    }

    #[test]
    fn the_meaning_is_written_as_its_bytes() {
        let mut b = [0; LEN];
        Repr { tpid: CUSTOMER, id: 100, priority: 5 }.emit(&mut b, 0x0800);
        assert_eq!(b, BYTES);
    }
}
