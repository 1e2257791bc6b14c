//! Which CPU a thread runs on.

use std::io;

/// CPUs that the calling thread may run on.
#[must_use]
pub fn allowed() -> Vec<u32> {
    // SAFETY: cpu_set_t is a plain array of bits, for which all zeroes is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the size passed.
    let status = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if status != 0 {
        return Vec::new();
    }
    // SAFETY: `cpu` is below CPU_SETSIZE, the number of bits in the set.
    (0..libc::CPU_SETSIZE.unsigned_abs()).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu as usize, &set) }).collect()
}

/// Binds the calling thread to one CPU.
pub fn pin(cpu: u32) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE.unsigned_abs() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: cpu_set_t is a plain array of bits, for which all zeroes is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` was checked to be below CPU_SETSIZE.
    unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    // SAFETY: the kernel reads the size passed.
    if unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Binds the calling thread, number `nth` of its kind, to one of `cpus`, which serve several threads each if there are more
/// of these. Without any, and with one that is not there, it stays where it was.
pub fn pin_to_nth(cpus: &[u32], nth: usize) {
    if let Some(n) = cpus.iter().cycle().nth(nth) {
        let _ = pin(*n);
    }
}

/// Lets the calling thread run on every CPU that the system leaves it.
pub fn unpin() {
    // SAFETY: cpu_set_t is a plain array of bits.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in 0..libc::CPU_SETSIZE.unsigned_abs() {
        // SAFETY: `cpu` is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    // The kernel takes away what the process's cpuset does not hold.
    // SAFETY: the kernel reads the size passed.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_on_one_cpu_only() {
        std::thread::spawn(|| {
            let cpu = *allowed().last().unwrap();
            pin(cpu).unwrap();
            assert_eq!(allowed(), [cpu]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        assert!(pin(1023).is_err() && pin(100_000).is_err());
    }
}
