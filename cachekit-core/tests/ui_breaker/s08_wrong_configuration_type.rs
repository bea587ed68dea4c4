use cachekit_core::breaker::CircuitBreaker;

struct CircuitBreakerConfig;

fn main() {
    let _ = CircuitBreaker::new(CircuitBreakerConfig);
    let _ = CircuitBreaker::builder(CircuitBreakerConfig);
}
