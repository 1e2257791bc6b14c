//! Input from outside the engine, and properties that must hold for any input.
//!
//! - [`targets`]: each takes bytes, and panics if a property does not hold
//! - [`corpus`]: literal inputs to begin with
//! - [`mutate`]: seeded changes to them
//!
//! Two runners use them. The program of this crate mutates by a seed and needs only a stable compiler; it does not
//! watch coverage, so it finds faults near the corpus. `libfuzzer/` watches coverage and needs nightly.
#![forbid(unsafe_code)]

pub mod corpus;
pub mod mutate;
pub mod targets;
