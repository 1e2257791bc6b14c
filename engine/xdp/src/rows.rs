//! Distribution of frames over sending CPUs.

/// Frames of one sending CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The CPU; `None`: the thread runs on the CPU of the thread that launches it.
    pub(crate) cpu: Option<u32>,
    /// Parts of streams, not empty.
    pub(crate) parts: Vec<Part>,
}

/// Part of a stream: each `of`-th frame, or each `of`-th burst, from number `nth` on, in order of due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// Index of the stream in the plan.
    pub(crate) stream: usize,
    pub(crate) nth: u64,
    pub(crate) of: u64,
}

impl Part {
    /// Makes the part that is the whole stream.
    pub(crate) const fn whole(stream: usize) -> Self {
        Self { stream, nth: 0, of: 1 }
    }

    /// Returns how many of the stream's first `frames` are in this part, where `burst` of them leave together.
    pub(crate) fn share(self, frames: u64, burst: u64) -> u64 {
        let (bursts, rest) = (frames / burst, frames % burst);
        let whole = (bursts + (self.of - 1 - self.nth)) / self.of * burst;
        whole + if bursts % self.of == self.nth { rest } else { 0 }
    }

    /// Returns the number in the stream of this part's frame `n`, where frames leave one by one.
    pub(crate) fn in_stream(self, n: u64) -> u64 {
        n.saturating_mul(self.of).saturating_add(self.nth)
    }
}

/// Distributes streams over CPUs in turn. If there are fewer streams than CPUs, distributes CPUs over streams instead,
/// and the CPUs of one stream share it. A CPU that is named twice serves once: two calls there would only take turns.
pub(crate) fn deal(streams: usize, cpus: &[u32]) -> Vec<Row> {
    let mut named = Vec::new();
    for cpu in cpus {
        if !named.contains(cpu) {
            named.push(*cpu);
        }
    }
    let count = named.len();
    if count < 2 || streams == 0 {
        return vec![Row { cpu: None, parts: (0..streams).map(Part::whole).collect() }];
    }
    let parts = |i: usize| {
        if streams >= count {
            return (i..streams).step_by(count).map(Part::whole).collect();
        }
        let stream = i % streams;
        vec![Part { stream, nth: (i / streams) as u64, of: (count - stream).div_ceil(streams) as u64 }]
    };
    named.iter().enumerate().map(|(i, cpu)| Row { cpu: Some(*cpu), parts: parts(i) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_frame_of_every_stream_is_in_one_part(
            streams in 1_usize..40, cpus in 1_u32..70, frames in 0_u64..1000, burst in 1_u64..9,
        ) {
            let rows = deal(streams, &(0..cpus).collect::<Vec<_>>());
            prop_assert!(rows.iter().all(|r| !r.parts.is_empty()));
            for stream in 0..streams {
                let parts: Vec<_> = rows.iter().flat_map(|r| &r.parts).filter(|p| p.stream == stream).collect();
                prop_assert_eq!(parts.iter().map(|p| p.share(frames, burst)).sum::<u64>(), frames);
                let mut numbers: Vec<_> =
                    parts.iter().flat_map(|p| (0..p.share(frames, 1)).map(|n| p.in_stream(n))).collect();
                numbers.sort_unstable();
                prop_assert_eq!(numbers, (0..frames).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn bursts_stay_whole() {
        let halves = [0, 1].map(|nth| Part { stream: 0, nth, of: 2 });
        // Four, four, four, two: the first and the third; the second and the rest.
        assert_eq!(halves.map(|p| p.share(14, 4)), [8, 6]);
    }

    #[test]
    fn a_cpu_that_is_named_twice_serves_once() {
        let alone = vec![Row { cpu: None, parts: vec![Part::whole(0)] }];
        assert_eq!(deal(1, &[3, 3]), alone);
        assert_eq!(deal(1, &[]), alone);
        let cpus: Vec<_> = deal(2, &[3, 5, 3]).into_iter().map(|r| (r.cpu, r.parts)).collect();
        assert_eq!(cpus, [(Some(3), vec![Part::whole(0)]), (Some(5), vec![Part::whole(1)])]);
    }
}
