//! Objects that responses carry: their sizes, and which of them the n-th response has (RFC 9411 section 7.3.3.2).

/// A size of bodies, and how often it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// Of the body.
    pub bytes: u64,
    /// Its share is its weight of all weights.
    pub weight: u32,
}

/// Objects in turn, spread by weight as evenly as whole responses allow.
#[derive(Debug)]
pub(crate) struct Rotation {
    objects: Vec<Object>,
    /// How much of a response each is owed, in parts of all weights.
    owed: Vec<i64>,
}

impl Rotation {
    /// Of `objects`, which are not empty.
    pub(crate) fn new(objects: Vec<Object>) -> Self {
        Self { owed: vec![0; objects.len()], objects }
    }

    /// The place in the list of the object that comes next.
    pub(crate) fn take(&mut self) -> usize {
        let mut next = 0;
        for (at, object) in self.objects.iter().enumerate() {
            self.owed[at] += i64::from(object.weight);
            if self.owed[at] > self.owed[next] {
                next = at;
            }
        }
        self.owed[next] -= self.objects.iter().map(|object| i64::from(object.weight)).sum::<i64>();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_as_often_as_its_weight_says_and_never_all_at_once() {
        let objects = [(1024, 3), (102_400, 2)].map(|(bytes, weight)| Object { bytes, weight });
        let mut rotation = Rotation::new(objects.to_vec());
        let order: Vec<usize> = (0..10).map(|_| rotation.take()).collect();
        assert_eq!(order, [0, 1, 0, 1, 0, 0, 1, 0, 1, 0]);
    }
}
