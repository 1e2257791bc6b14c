//! Input from outside the engine, and what must hold whatever it is.
//!
//! - [`targets`]: each takes bytes, and panics where something does not hold
//! - [`corpus`]: literal inputs to begin with
//! - [`mutate`]: seeded changes to them
//!
//! Two runners use them: the program of this crate, which mutates by a seed and needs nothing but a stable compiler (it
//! does not watch coverage, so it finds what lies near the corpus), and `libfuzzer/`, which does and needs nightly.
#![forbid(unsafe_code)]

pub mod corpus;
pub mod mutate;
pub mod targets;
