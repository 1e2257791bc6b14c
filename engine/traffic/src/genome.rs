//! IMIX genomes (RFC 6985): a sequence of frame sizes written as letters.
//!
//! `aaafg` is three frames of 64 bytes, one of 1280 and one of 1518, repeatedly. A number before a letter repeats it,
//! which is the RFC's run-length form for long sequences: `40a20fg`. Upper-case letters are user-defined sizes, and `z`
//! is the MTU; both must be stated with the genome.

use dutlab_units::{FrameSize, FrameSizeError};
use std::collections::BTreeMap;
use std::fmt;

/// The longest sequence, in frames.
pub const LONGEST: usize = 1 << 16;

/// Sizes with FCS of the letters with a fixed meaning (RFC 6985 section 3).
const LETTERS: [(char, u32); 10] = [
    ('a', 64),
    ('b', 128),
    ('c', 256),
    ('d', 512),
    ('e', 1024),
    ('f', 1280),
    ('g', 1518),
    ('h', 2112),
    ('i', 9000),
    ('j', 16000),
];

/// A text that is not a genome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GenomeError {
    /// There are no letters.
    Empty,
    /// A character that is not a letter of a genome.
    NotALetter(char),
    /// `z`, or an upper-case letter, whose size was not stated.
    Unstated(char),
    /// A stated size that the genome does not use, or for a letter that cannot be stated.
    Useless(char),
    /// A letter whose frames cannot be sent.
    Size(char, FrameSizeError),
    /// A number without a letter behind it, or 0.
    BadRun(String),
    /// More frames than a sequence may have.
    TooLong,
}

impl fmt::Display for GenomeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "an empty genome; write letters, as in aaafg"),
            Self::NotALetter(c) => write!(
                f,
                "{c:?} is not a letter of a genome; known: a=64 b=128 c=256 d=512 e=1024 f=1280 g=1518 h=2112 i=9000 \
                 j=16000, z and A to Z as stated"
            ),
            Self::Unstated('z') => write!(f, "z is the MTU: state its frame size with FCS"),
            Self::Unstated(c) => write!(f, "{c} is a size of one's own: state it in the table"),
            Self::Useless(c) => write!(f, "a size is stated for {c:?}, which the genome does not use or has already"),
            Self::Size(c, e) => write!(f, "{c}: {e}"),
            Self::BadRun(n) => write!(f, "{n:?} repeats nothing; write a number above 0 and a letter, as in 40a"),
            Self::TooLong => write!(f, "the sequence is longer than {LONGEST} frames"),
        }
    }
}

impl std::error::Error for GenomeError {}

/// Returns the sizes of a genome, in order. `stated` has `z` and the upper-case letters, in bytes with FCS.
pub fn read(genome: &str, stated: &BTreeMap<char, u32>) -> Result<Vec<FrameSize>, GenomeError> {
    let mut sizes = Vec::new();
    let mut run = String::new();
    for c in genome.chars() {
        if c.is_ascii_digit() {
            run.push(c);
            continue;
        }
        let size = size_of(c, stated)?;
        let times = match run.as_str() {
            "" => 1,
            n => n.parse().ok().filter(|n| *n > 0).ok_or_else(|| GenomeError::BadRun(run.clone()))?,
        };
        run.clear();
        if times > LONGEST - sizes.len() {
            return Err(GenomeError::TooLong);
        }
        sizes.resize(sizes.len() + times, size);
    }
    if !run.is_empty() {
        return Err(GenomeError::BadRun(run));
    }
    if let Some(c) = stated.keys().find(|c| !genome.contains(**c) || !may_be_stated(**c)) {
        return Err(GenomeError::Useless(*c));
    }
    if sizes.is_empty() { Err(GenomeError::Empty) } else { Ok(sizes) }
}

fn size_of(c: char, stated: &BTreeMap<char, u32>) -> Result<FrameSize, GenomeError> {
    let fixed = LETTERS.iter().find(|(letter, _)| *letter == c).map(|(_, size)| *size);
    let size = match (fixed, stated.get(&c)) {
        (Some(size), _) => size,
        (None, Some(size)) if may_be_stated(c) => *size,
        (None, None) if may_be_stated(c) => return Err(GenomeError::Unstated(c)),
        _ => return Err(GenomeError::NotALetter(c)),
    };
    FrameSize::new(size).map_err(|e| GenomeError::Size(c, e))
}

const fn may_be_stated(c: char) -> bool {
    c == 'z' || c.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(genome: &str, stated: &[(char, u32)]) -> Result<Vec<u32>, GenomeError> {
        let sizes = read(genome, &stated.iter().copied().collect())?;
        Ok(sizes.iter().map(|s| s.with_fcs()).collect())
    }

    #[test]
    fn the_letters_are_those_of_rfc_6985() {
        assert_eq!(bytes("aaafg", &[]).unwrap(), [64, 64, 64, 1280, 1518]);
        assert_eq!(bytes("abcdefghi", &[]).unwrap(), [64, 128, 256, 512, 1024, 1280, 1518, 2112, 9000]);
    }

    #[test]
    fn a_letter_that_is_not_fixed_needs_its_size_and_a_size_needs_its_letter() {
        assert_eq!(bytes("azA", &[('z', 1518), ('A', 100)]).unwrap(), [64, 1518, 100]);
        assert_eq!(bytes("az", &[]), Err(GenomeError::Unstated('z')));
        assert_eq!(bytes("aB", &[('A', 100)]), Err(GenomeError::Unstated('B')));
        assert_eq!(bytes("a", &[('A', 100)]), Err(GenomeError::Useless('A')));
        assert_eq!(bytes("aaa", &[('a', 100)]), Err(GenomeError::Useless('a')));
    }

    #[test]
    fn runs_repeat_their_letter() {
        assert_eq!(bytes("3a2fg", &[]).unwrap(), [64, 64, 64, 1280, 1280, 1518]);
        assert_eq!(bytes("3", &[]), Err(GenomeError::BadRun("3".into())));
        assert_eq!(bytes("a0f", &[]), Err(GenomeError::BadRun("0".into())));
        assert_eq!(bytes("65536a", &[]).unwrap().len(), LONGEST);
        assert_eq!(bytes("65536aa", &[]), Err(GenomeError::TooLong));
        assert_eq!(bytes("99999999999999999999a", &[]), Err(GenomeError::BadRun("99999999999999999999".into())));
    }

    #[test]
    fn what_is_no_genome_is_refused_in_words() {
        assert_eq!(bytes("", &[]), Err(GenomeError::Empty));
        assert_eq!(bytes("a-f", &[]), Err(GenomeError::NotALetter('-')));
        assert_eq!(bytes("ak", &[]), Err(GenomeError::NotALetter('k')));
        let long = bytes("j", &[]).unwrap_err().to_string();
        assert!(long.contains("16000 is not a frame size"), "{long}");
    }

    proptest! {
        #[test]
        fn runs_mean_the_same_as_their_letters_written_out(runs in proptest::collection::vec((1_usize..50, 0_usize..9), 1..20)) {
            let short = runs.iter().map(|(n, i)| format!("{n}{}", LETTERS[*i].0)).collect::<Vec<_>>().concat();
            let long: String = runs.iter().map(|(n, i)| LETTERS[*i].0.to_string().repeat(*n)).collect();
            prop_assert_eq!(bytes(&short, &[]), bytes(&long, &[]));
        }

        #[test]
        fn no_text_makes_it_panic(text: String, stated: BTreeMap<char, u32>) {
            let _ = read(&text, &stated);
        }
    }
}
