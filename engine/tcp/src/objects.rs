//! Objects that responses carry: their sizes, and the choice of the n-th response's object (RFC 9411 section 7.3.3.2).

/// A size of bodies, and its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// Length of the body.
    pub bytes: u64,
    /// Weight; the object's share is its weight divided by the sum of all weights.
    pub weight: u32,
}

/// Rotation of objects, spread by weight as evenly as whole responses allow.
#[derive(Debug)]
pub(crate) struct Rotation {
    objects: Vec<Object>,
    /// Credit of each object, as parts of a response in units of the sum of all weights.
    owed: Vec<i64>,
}

impl Rotation {
    /// Makes a rotation of `objects`, which are not empty.
    pub(crate) fn new(objects: Vec<Object>) -> Self {
        Self { owed: vec![0; objects.len()], objects }
    }

    /// Returns the index of the next object.
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
