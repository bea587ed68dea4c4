use cachekit_core::breaker::CircuitBreaker;

fn main() {
    let breaker = CircuitBreaker::new(Default::default()).unwrap();
    let permit = breaker.admit().unwrap();
    let _ = permit.clone();
}
