use cachekit_core::breaker::BreakerConfig;

fn main() {
    let config = BreakerConfig::new();
    let _ = config.clone().with_half_open_requests(-1);
    let _ = config.clone().with_half_open_requests(true);
    let _ = config.clone().with_half_open_requests(5.0);
    let _ = config.clone().with_half_open_requests("5");
    let _ = config.clone().with_half_open_requests(None);
    let _ = config.clone().with_half_open_requests(f64::NAN);
}
