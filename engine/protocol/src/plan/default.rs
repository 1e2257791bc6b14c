//! Default values of omitted keys, for serde.

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub(super) const fn is_zero(number: &u16) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
pub(super) const fn is_no_time(ns: &u64) -> bool {
    *ns == 0
}

pub(super) const fn one() -> u32 {
    1
}
