//! CPUs of threads.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// Returns the CPUs that the calling thread may run on.
#[must_use]
pub fn allowed() -> Vec<u32> {
    let numbers = 0..u32::try_from(CpuSet::MAX_CPU).unwrap_or(u32::MAX);
    sched_getaffinity(None).map_or_else(|_| Vec::new(), |set| numbers.filter(|n| set.is_set(*n as usize)).collect())
}

/// Binds the calling thread to one CPU.
pub fn pin(cpu: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL.into());
    }
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

/// Binds the calling thread, number `nth` of its kind, to one of `cpus`. CPUs serve several threads each if there are
/// more threads. If the list is empty or the CPU does not exist, the thread stays where it was.
pub fn pin_to_nth(cpus: &[u32], nth: usize) {
    if let Some(n) = cpus.iter().cycle().nth(nth) {
        let _ = pin(*n);
    }
}

/// Lets the calling thread run on every CPU that the system allows it.
pub fn unpin() {
    let mut set = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    // The kernel removes CPUs that are not in the process's cpuset.
    let _ = sched_setaffinity(None, &set);
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
