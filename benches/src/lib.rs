//! What the benches share: a seeded generator, Zipf traces, medians and the memory of this process.

#![allow(
    clippy::cast_possible_truncation,
    reason = "ranks, counts and sizes here are far below the limits of every type involved"
)]

use std::fs;

/// xorshift64*: small, seeded, and the same trace on every machine.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator whose sequence depends on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number from `[0, below)`.
    pub fn below(&mut self, below: usize) -> usize {
        ((self.unit() * below as f64) as usize).min(below.saturating_sub(1))
    }
}

/// Draws the ranks `0..n`, rank `r` in proportion to `1 / (r + 1)^s`, and scatters them over the identifiers `0..n`,
/// so that neighbours in popularity are no neighbours in memory.
#[derive(Debug, Clone)]
pub struct Zipf {
    cumulated: Vec<f64>,
    scattered: Vec<u32>,
}

impl Zipf {
    /// A distribution over `n` identifiers with exponent `s`.
    pub fn new(n: usize, s: f64, seed: u64) -> Self {
        let mut sum = 0.0;
        let cumulated = (1..=n)
            .map(|rank| {
                sum += (rank as f64).powf(-s);
                sum
            })
            .collect();
        let mut scattered: Vec<u32> = (0..n as u32).collect();
        let mut rng = Rng::new(seed ^ 0x5CA7_7E2D);
        for i in (1..n).rev() {
            scattered.swap(i, rng.below(i + 1));
        }
        Self { cumulated, scattered }
    }

    /// The next identifier.
    pub fn draw(&self, rng: &mut Rng) -> u32 {
        self.scattered[self.rank(rng)]
    }

    /// The next identifier when the popularity has moved on by `shift` ranks: rank 0 is then another identifier.
    pub fn draw_shifted(&self, rng: &mut Rng, shift: usize) -> u32 {
        self.scattered[(self.rank(rng) + shift) % self.scattered.len()]
    }

    fn rank(&self, rng: &mut Rng) -> usize {
        let total = self.cumulated.last().copied().unwrap_or_default();
        let at = rng.unit() * total;
        self.cumulated.partition_point(|&c| c <= at).min(self.scattered.len() - 1)
    }
}

/// The median of `values`; 0 for none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The bytes of this process that are in memory, or `None` where the system does not say (anywhere but Linux).
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// A Markdown table with the first column to the left and the others to the right.
pub fn markdown(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut table = line(&head.iter().map(ToString::to_string).collect::<Vec<_>>());
    table += &format!("|---|{}\n", "---:|".repeat(head.len().saturating_sub(1)));
    for row in rows {
        table += &line(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_depends_on_its_seed_alone() {
        let zipf = Zipf::new(100, 1.0, 7);
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..50).map(|_| zipf.draw(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn the_first_rank_comes_as_often_as_zipf_says() {
        let (n, draws) = (1_000, 200_000);
        let zipf = Zipf::new(n, 1.0, 7);
        let mut rng = Rng::new(3);
        let first = zipf.scattered[0];
        let hits = (0..draws).filter(|_| zipf.draw(&mut rng) == first).count();
        let expected = draws as f64 / (1..=n).map(|r| 1.0 / r as f64).sum::<f64>();
        assert!((hits as f64 / expected - 1.0).abs() < 0.05, "{hits} for {expected}");
    }

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        assert_eq!(median(&[3.0, 1.0]), 2.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    }
}
