//! The waits between dials.

use std::time::Duration;

const FIRST_WAIT: Duration = Duration::from_millis(50);
/// With the random factor of up to 1.5 it stays below two seconds, in which a server that is back has to be found.
const LONGEST_WAIT: Duration = Duration::from_millis(1_300);

/// 50 ms at first, twice as long each time, at random around that.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST_WAIT)
    }
}

impl Backoff {
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.0.mul_f64(random_factor())).await;
        self.0 = (self.0 * 2).min(LONGEST_WAIT);
    }
}

/// From 0.5 to 1.5: a fleet that lost its server must not come back in step.
fn random_factor() -> f64 {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    0.5 + f64::from(random) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_random_and_bounded() {
        let factors: Vec<f64> = (0..1_000).map(|_| random_factor()).collect();
        assert!(factors.iter().all(|factor| (0.5..=1.5).contains(factor)));
        assert!(factors.iter().any(|factor| *factor < 0.7) && factors.iter().any(|factor| *factor > 1.3));
        assert!(LONGEST_WAIT.mul_f64(1.5) < Duration::from_secs(2));
    }
}
