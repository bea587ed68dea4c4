//! Numbers that look random and come back with their seed.

/// The output function of splitmix64: a bijection whose every output bit depends on every input bit.
pub(super) const fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The number `bits` stand for in `0.0..1.0`.
#[expect(clippy::cast_precision_loss, reason = "53 bits are what the mantissa holds")]
pub(super) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_output_of_splitmix64_is_the_published_one() {
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn units_stay_below_one() {
        assert!(unit(0) == 0.0 && unit(u64::MAX) < 1.0);
    }
}
