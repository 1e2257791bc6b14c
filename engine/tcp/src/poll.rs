//! Non-blocking sockets and their events (epoll(7), edge-triggered).

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::time::Duration;

const AT_ONCE: usize = 1024;

/// Source of socket events. Each event has the number of its socket.
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poll {
    /// Makes an instance that watches nothing.
    pub fn new() -> Result<Self, Errno> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(AT_ONCE) })
    }

    /// Watches `socket` until it is closed.
    pub fn watch(&self, socket: impl AsFd, token: u64) -> Result<(), Errno> {
        let all = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), all)
    }

    /// Returns the numbers of sockets with events. Waits for at most `at_most`.
    ///
    /// # Panics
    /// If `at_most` is longer than the system can count.
    pub fn wait(&mut self, at_most: Duration) -> Result<impl Iterator<Item = u64>, Errno> {
        let at_most = Timespec::try_from(at_most).expect("a wait is short");
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&at_most)) {
            Ok(_) | Err(Errno::INTR) => Ok(self.events.iter().map(|event| event.data.u64())),
            Err(e) => Err(e),
        }
    }
}

/// Makes a non-blocking TCP socket for this address.
pub fn socket(of: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if of.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket =
        rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?; // segments of a TLS flight must not wait for ACKs
    Ok(socket)
}

/// Raises the limit of open sockets to `count`, as far as the system allows; returns the new limit.
#[must_use]
pub fn allow_sockets(count: u64) -> u64 {
    let now = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: Some(count), maximum: now.maximum.map(|most| most.max(count)) };
    if now.current.is_some_and(|n| n < count) && setrlimit(Resource::Nofile, wanted).is_err() {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Sockets by number. A number is never reused for another socket, so a late event of a closed socket finds nothing.
pub struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Stores `item`; returns its number.
    ///
    /// # Panics
    /// If there are more than 2^32 items.
    pub fn put(&mut self, item: T) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            u32::try_from(self.slots.len() - 1).expect("fewer sockets than 2^32")
        });
        let (age, place) = &mut self.slots[slot as usize];
        *place = Some(item);
        u64::from(*age) << 32 | u64::from(slot)
    }

    /// Returns the item with this number, if it still exists.
    pub fn get(&mut self, number: u64) -> Option<&mut T> {
        let (age, item) = self.slots.get_mut(usize::try_from(number & 0xffff_ffff).ok()?)?;
        if u64::from(*age) == number >> 32 { item.as_mut() } else { None }
    }

    /// Removes an item.
    ///
    /// # Panics
    /// Never: the lower half of a number fits into 32 bits.
    pub fn take(&mut self, number: u64) -> Option<T> {
        self.get(number)?;
        let slot = u32::try_from(number & 0xffff_ffff).expect("the lower half");
        let (age, item) = &mut self.slots[slot as usize];
        *age = age.wrapping_add(1) & 0x7fff_ffff; // the highest bit marks numbers that are not of a slab
        self.free.push(slot);
        item.take()
    }

    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns true if there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the numbers of all items.
    #[must_use]
    pub fn numbers(&self) -> Vec<u64> {
        let held = self.slots.iter().enumerate().filter(|(_, (_, item))| item.is_some());
        held.map(|(slot, (age, _))| u64::from(*age) << 32 | slot as u64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;

    #[test]
    fn the_number_of_what_was_taken_finds_nothing() {
        let mut slab = Slab::default();
        let first = slab.put('a');
        assert_eq!(slab.take(first), Some('a'));
        let second = slab.put('b');
        assert_ne!(first, second);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.take(first), None);
        assert_eq!(slab.get(second), Some(&mut 'b'));
        assert_eq!((slab.len(), slab.numbers()), (1, vec![second]));
    }
}
