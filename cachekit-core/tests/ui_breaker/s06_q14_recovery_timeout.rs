use cachekit_core::breaker::BreakerConfig;

fn main() {
    let config = BreakerConfig::new();
    let _ = config.clone().with_recovery_timeout(30);
    let _ = config.clone().with_recovery_timeout_secs(true);
    let _ = config.clone().with_recovery_timeout_secs("30");
    let _ = config.clone().with_recovery_timeout_secs(None);
}
