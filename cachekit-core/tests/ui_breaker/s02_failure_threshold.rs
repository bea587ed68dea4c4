use cachekit_core::breaker::BreakerConfig;

fn main() {
    let config = BreakerConfig::new();
    let _ = config.clone().with_failure_threshold(-1);
    let _ = config.clone().with_failure_threshold(true);
    let _ = config.clone().with_failure_threshold(5.0);
    let _ = config.clone().with_failure_threshold("5");
    let _ = config.clone().with_failure_threshold(None);
    let _ = config.clone().with_failure_threshold(f64::NAN);
}
