use cachekit_core::breaker::BreakerConfig;

fn main() {
    let config = BreakerConfig::new();
    let _ = config.clone().with_success_threshold(-1);
    let _ = config.clone().with_success_threshold(true);
    let _ = config.clone().with_success_threshold(5.0);
    let _ = config.clone().with_success_threshold("5");
    let _ = config.clone().with_success_threshold(None);
    let _ = config.clone().with_success_threshold(f64::NAN);
}
