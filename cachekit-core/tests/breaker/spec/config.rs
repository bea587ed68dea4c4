//! S01 to S11, and the ambiguities about settings.

use crate::rig::{Rig, SECOND, defaults, single};
use cachekit_core::breaker::{Abandoned, BreakerConfig, CircuitBreaker, ConfigError, ConfigWarning, State};
use std::time::Duration;

fn refused(config: BreakerConfig) -> ConfigError {
    let error = config.validate().unwrap_err();
    let built = CircuitBreaker::new(config).unwrap_err();
    assert_eq!(built.to_string(), error.to_string(), "what is built from it checks the same");
    assert!(error.to_string().contains(error.field()), "`{error}` names the setting");
    error
}

fn accepted(config: BreakerConfig) {
    config.validate().unwrap();
    assert_eq!(CircuitBreaker::new(config.clone()).unwrap().config(), &config);
}

#[test]
fn s01_defaults() {
    for config in [BreakerConfig::new(), BreakerConfig::default()] {
        assert!(config.enabled());
        assert_eq!(config.failure_threshold(), 5);
        assert_eq!(config.success_threshold(), 3);
        assert_eq!(config.recovery_timeout(), Duration::from_secs(30));
        assert_eq!(config.half_open_requests(), 3);
        assert!(!config.count_operation_errors());
        assert_eq!(config.abandoned(), Abandoned::Hold);
        assert_eq!(config.slow_call(), None);
        accepted(config);
    }
}

#[test]
fn s02_failure_threshold() {
    for threshold in [1, 3, 5, 10, u32::MAX] {
        accepted(defaults().with_failure_threshold(threshold));
    }
    assert_eq!(refused(defaults().with_failure_threshold(0)), ConfigError::Zero { field: "failure_threshold" });
}

#[test]
fn s03_success_threshold() {
    for threshold in [1, 3, 5, 10, u32::MAX] {
        accepted(defaults().with_success_threshold(threshold).with_half_open_requests(u32::MAX));
    }
    assert_eq!(refused(defaults().with_success_threshold(0)).field(), "success_threshold");
}

#[test]
fn s04_half_open_requests() {
    for slots in [1, 3, 5, 10, u32::MAX] {
        accepted(defaults().with_success_threshold(1).with_half_open_requests(slots));
    }
    assert_eq!(refused(defaults().with_half_open_requests(0)).field(), "half_open_requests");
    assert_eq!(refused(defaults().with_half_open_requests(0).with_success_threshold(0)).field(), "success_threshold");
}

#[test]
fn s05_slots_cover_the_successes() {
    for (successes, slots) in [(3, 3), (1, 1), (3, 10)] {
        accepted(defaults().with_success_threshold(successes).with_half_open_requests(slots));
    }
    for config in [
        defaults().with_success_threshold(3).with_half_open_requests(2),
        defaults().with_success_threshold(2).with_half_open_requests(1),
        defaults().with_success_threshold(4),
        defaults().with_half_open_requests(1),
    ] {
        let error = refused(config);
        assert_eq!(error.field(), "half_open_requests");
        assert!(error.to_string().contains("success_threshold"));
    }
}

#[test]
fn s06_recovery_timeout() {
    for seconds in [30.0, 10.0, 1.0 / 3.0, 0.001] {
        let config = defaults().with_recovery_timeout_secs(seconds);
        assert!((config.recovery_timeout().as_secs_f64() - seconds).abs() < 1e-9);
        accepted(config);
    }
    for seconds in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let config = defaults().with_recovery_timeout_secs(seconds);
        assert_eq!(config, config.clone(), "a refused number is still equal to itself");
        let error = refused(config.clone());
        assert_eq!(error.field(), "recovery_timeout");
        assert!(error.to_string().ends_with(&format!("not {seconds}")), "{error}");
        accepted(config.with_recovery_timeout(SECOND));
    }
    assert_eq!(refused(defaults().with_recovery_timeout(Duration::ZERO)).field(), "recovery_timeout");
}

#[test]
fn s07_an_invalid_setting_fails_where_the_breaker_is_built() {
    let error = CircuitBreaker::new(defaults().with_failure_threshold(0)).unwrap_err();
    assert_eq!(error.to_string(), "circuit breaker: failure_threshold must be greater than 0");
    let error = CircuitBreaker::builder(defaults().with_slow_call(Duration::ZERO)).build().unwrap_err();
    assert_eq!(error.field(), "slow_call");
}

#[test]
fn s09_off_is_never_consulted() {
    let rig = Rig::new(single().with_enabled(false).with_abandoned(Abandoned::Failure));
    for _ in 0..100 {
        rig.fail();
        rig.admit().raised();
        drop(rig.admit());
        assert!(!rig.breaker.try_admit().unwrap().is_probe());
    }
    rig.breaker.force_open();
    assert_eq!(rig.state(), State::Closed);
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.failure_count, snapshot.late_outcomes_total, snapshot.last_failure_age), (0, 0, None));
    assert_eq!(snapshot.opened_total(), 0);
}

#[test]
fn s11_the_settings_are_reported_exactly() {
    for (failures, seconds) in [(3, 10.0), (10, 60.0), (1, 30.0), (5, 1.0)] {
        let rig = Rig::new(defaults().with_failure_threshold(failures).with_recovery_timeout_secs(seconds));
        let config = rig.snapshot().config;
        assert_eq!(config.failure_threshold(), failures);
        assert!(config.recovery_timeout().as_secs_f64().to_bits() == f64::to_bits(seconds));
    }
}

#[test]
fn q08_a_huge_threshold_reserves_nothing() {
    let rig = Rig::new(defaults().with_failure_threshold(4_000_000_000));
    rig.fail_times(1_000);
    assert_eq!((rig.state(), rig.failures()), (State::Closed, 1_000));
}

#[test]
fn q15_the_smallest_and_the_largest_timeout() {
    let smallest = defaults().with_recovery_timeout_secs(f64::from_bits(1));
    assert_eq!(smallest.recovery_timeout(), Duration::from_nanos(1));
    let rig = Rig::open(smallest);
    rig.advance(Duration::from_nanos(1));
    assert_eq!(rig.rejected().retry_in, Duration::ZERO);
    rig.advance(Duration::from_nanos(1));
    rig.probe().success();

    for largest in [
        defaults().with_recovery_timeout_secs(1e300),
        defaults().with_recovery_timeout_secs(f64::MAX),
        defaults().with_recovery_timeout(Duration::MAX),
        defaults().with_recovery_timeout(Duration::from_nanos(u64::MAX)),
    ] {
        let rig = Rig::open(largest);
        rig.advance(Duration::from_secs(100 * 365 * 24 * 3_600));
        assert!(rig.rejected().retry_in > Duration::ZERO, "a century later it is still open");
    }
}

#[test]
fn q16_off_is_validated_too() {
    assert_eq!(refused(defaults().with_enabled(false).with_success_threshold(4)).field(), "half_open_requests");
    assert_eq!(
        refused(defaults().with_enabled(false).with_recovery_timeout_secs(f64::NAN)).field(),
        "recovery_timeout"
    );
}

#[test]
fn q23_warns_when_a_cycle_is_over_before_its_probes_report() {
    let build_timeout = Duration::from_secs(5);
    let warnings = |cooldown| defaults().with_recovery_timeout(cooldown).warnings(build_timeout);
    for cooldown in [build_timeout, build_timeout - Duration::from_nanos(1)] {
        let expected = ConfigWarning::RecoveryWithinBuild { recovery_timeout: cooldown, build_timeout };
        assert_eq!(warnings(cooldown), [expected]);
        assert!(expected.to_string().contains("recovery_timeout"), "{expected}");
    }
    assert_eq!(warnings(build_timeout + Duration::from_nanos(1)), []);
}

#[test]
fn q24_warns_when_the_failures_do_not_fit_the_window() {
    let warnings = |threshold, timeout| defaults().with_failure_threshold(threshold).warnings(timeout);
    let build_timeout = Duration::from_secs(5);
    assert_eq!(warnings(13, build_timeout), [], "exactly 60 s still fits");
    let expected = ConfigWarning::FailuresOutlastWindow { failure_threshold: 14, build_timeout };
    assert_eq!(warnings(14, build_timeout), [expected]);
    assert!(expected.to_string().contains("failure_threshold"), "{expected}");
    assert_eq!(warnings(5, Duration::from_secs(15)), []);
    assert_eq!(warnings(5, Duration::from_secs(15) + Duration::from_nanos(1)).len(), 1);
    assert_eq!(warnings(u32::MAX, Duration::MAX).len(), 2, "no overflow");
    assert_eq!(
        defaults().with_enabled(false).warnings(Duration::MAX),
        [],
        "nothing to say about a breaker that is off"
    );
}
