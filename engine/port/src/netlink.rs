//! Netlink (netlink(7)): a query to the kernel with one answer, or with a whole table as answer.

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;

const HEADER: usize = 16;
/// `NLM_F_REQUEST`, `NLM_F_DUMP`.
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;

/// A socket for queries to one family of netlink.
pub(crate) struct Netlink(OwnedFd);

/// End of one datagram of the kernel's answer.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    More,
    Done,
    Refused(Errno),
}

impl Netlink {
    /// Opens a socket for queries about links, addresses, routes and neighbours (rtnetlink(7)).
    pub(crate) fn route() -> io::Result<Self> {
        Self::open(None)
    }

    /// Opens a socket for queries to families that the kernel names.
    pub(crate) fn generic() -> io::Result<Self> {
        Self::open(Some(net::netlink::GENERIC))
    }

    fn open(family: Option<Protocol>) -> io::Result<Self> {
        Ok(Self(net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, family)?))
    }

    /// Sends one query, which consists of a structure and attributes, and returns its one answer in the same form.
    pub(crate) fn ask(&self, kind: u16, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut answer = None;
        self.talk(kind, REQUEST, body, &mut |body| answer = Some(body.to_vec()))?;
        answer.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    }

    /// Requests a whole table, and passes each entry to `take`. A kernel without this table gives no entries.
    pub(crate) fn dump(&self, kind: u16, body: &[u8], take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        match self.talk(kind, REQUEST | DUMP, body, take) {
            Err(Errno::OPNOTSUPP | Errno::AFNOSUPPORT) => Ok(()),
            other => Ok(other?),
        }
    }

    fn talk(&self, kind: u16, flags: u16, body: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<(), Errno> {
        // An unconnected netlink socket sends to the kernel.
        net::send(&self.0, &message(kind, flags, body), SendFlags::empty())?;
        let mut buffer = vec![0_u8; 1 << 16];
        loop {
            let (n, _) = match net::recv(&self.0, buffer.as_mut_slice(), RecvFlags::empty()) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            match read(&buffer[..n], take) {
                Part::More if flags & DUMP != 0 => {}
                Part::More | Part::Done => return Ok(()),
                Part::Refused(errno) => return Err(errno),
            }
        }
    }
}

/// Receives the kernel's messages about all links of this namespace.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

/// `RTMGRP_LINK` of `linux/rtnetlink.h`.
const LINKS: u32 = 1;

impl Listener {
    /// Starts to listen.
    pub(crate) fn of_links() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        net::bind(&fd, &net::netlink::SocketAddrNetlink::new(0, LINKS))?;
        Ok(Self(fd))
    }

    /// Passes on the messages since the last call, as far as there was room to keep them.
    pub(crate) fn read(&self, take: &mut dyn FnMut(&[u8])) {
        let mut buffer = vec![0_u8; 1 << 16];
        loop {
            match net::recv(&self.0, buffer.as_mut_slice(), RecvFlags::empty()) {
                // Messages without room are lost; the rest is still there.
                Err(Errno::INTR | Errno::NOBUFS) => {}
                Err(_) => return,
                Ok((n, _)) => {
                    read(&buffer[..n], take);
                }
            }
        }
    }
}

/// `struct nlmsghdr`: length, type, flags, sequence, sender; then the body.
fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER + body.len()).expect("questions are short");
    [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8], body].concat()
}

fn read(mut b: &[u8], take: &mut dyn FnMut(&[u8])) -> Part {
    while b.len() >= HEADER {
        let length = (u32_at(b, 0) as usize).clamp(HEADER, b.len());
        let body = &b[HEADER..length];
        match i32::from(u16_at(b, 4)) {
            libc::NLMSG_DONE => return Part::Done,
            libc::NLMSG_ERROR => {
                let errno = body.first_chunk().map(|n| i32::from_ne_bytes(*n).wrapping_neg());
                let errno = errno.filter(|n| (1..4096).contains(n)).unwrap_or(libc::EPROTO);
                return Part::Refused(Errno::from_raw_os_error(errno));
            }
            _ => take(body),
        }
        b = &b[length.next_multiple_of(4).min(b.len())..];
    }
    Part::More
}

/// Encodes an attribute of a query.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).expect("attributes are short");
    let mut a = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    a.resize(a.len().next_multiple_of(4), 0);
    a
}

/// Returns the attributes of an answer or of an entry, which follow its structure of `fixed` bytes.
pub(crate) fn attributes(body: &[u8], fixed: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut b = body.get(fixed..).unwrap_or(&[]);
    std::iter::from_fn(move || {
        if b.len() < 4 {
            return None;
        }
        let length = usize::from(u16_at(b, 0)).clamp(4, b.len());
        // The highest bits describe the nesting of the value.
        let attribute = (u16_at(b, 2) & 0x3fff, &b[4..length]);
        b = &b[length.next_multiple_of(4).min(b.len())..];
        Some(attribute)
    })
}

/// Returns the value of the first attribute of a kind.
pub(crate) fn find(body: &[u8], fixed: usize, kind: u16) -> Option<&[u8]> {
    attributes(body, fixed).find(|(k, _)| *k == kind).map(|(_, value)| value)
}

/// Returns the number at the start of a value.
pub(crate) fn number(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|n| u32::from_ne_bytes(*n))
}

pub(crate) fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([b[at], b[at + 1]])
}

pub(crate) fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: i32, body: &[u8]) -> Vec<u8> {
        message(u16::try_from(kind).unwrap(), 0, body)
    }

    #[test]
    fn an_answer_cut_anywhere_is_read_without_harm_and_its_end_and_refusals_are_seen() {
        let (first, second) = (answer(28, &[1; 24]), answer(28, &[2; 12]));
        let parts = |b: &[u8]| {
            let mut seen = Vec::new();
            let end = read(b, &mut |body: &[u8]| seen.push(body.to_vec()));
            (seen, end)
        };
        let two = [first.clone(), second.clone()].concat();
        assert_eq!(parts(&two), (vec![vec![1; 24], vec![2; 12]], Part::More));
        for n in 0..two.len() {
            parts(&two[..n]);
        }
        assert_eq!(parts(&[first, answer(libc::NLMSG_DONE, &[0; 4]), second].concat()).0.len(), 1);
        let refused = |number: i32| parts(&answer(libc::NLMSG_ERROR, &number.to_ne_bytes()));
        assert_eq!(refused(-libc::EPERM), (vec![], Part::Refused(Errno::PERM)));
        assert_eq!((refused(0).1, refused(i32::MIN).1), (Part::Refused(Errno::PROTO), Part::Refused(Errno::PROTO)));
        assert_eq!(parts(&answer(libc::NLMSG_ERROR, &[])).1, Part::Refused(Errno::PROTO));
    }

    #[test]
    fn attributes_are_read_as_they_are_written_and_cut_anywhere_do_no_harm() {
        let body = [vec![0; 8], attribute(3, b"netdev\0"), attribute(0x8000 | 7, &9_u32.to_ne_bytes())].concat();
        assert_eq!(find(&body, 8, 3), Some(&b"netdev\0"[..]));
        assert_eq!(find(&body, 8, 7).and_then(number), Some(9));
        assert_eq!(find(&body, 8, 4), None);
        for n in 0..body.len() {
            attributes(&body[..n], 8).count();
        }
    }
}
