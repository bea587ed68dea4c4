//! U193: the page of all options lists all options.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

const PAGE: &str = include_str!("../docs/guide/options.md");
const BUILDER: &str = include_str!("../cachekit-core/src/cache/builder.rs");
const BREAKER: &str = include_str!("../cachekit-core/src/breaker/config.rs");

/// The names in the first column of a table.
fn listed(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

/// The public functions that take a builder and give it back.
fn setters<'a>(source: &'a str, prefix: &str) -> Vec<&'a str> {
    let functions = source.lines().filter_map(|line| line.trim_start().strip_prefix("pub "));
    let functions = functions.map(|line| line.trim_start_matches("const ")).filter_map(|line| line.strip_prefix("fn "));
    let setters = functions.filter(|line| line.contains("(mut self") && line.contains("-> Self"));
    let mut names: Vec<_> =
        setters.filter_map(|line| line.split('(').next()).filter_map(|name| name.strip_prefix(prefix)).collect();
    names.sort_unstable();
    names
}

#[test]
fn u193_the_page_lists_every_option_of_the_cache_and_of_its_breaker() {
    let (cache, breaker) = PAGE.split_once("## The circuit breaker").unwrap();
    let names = setters(BUILDER, "");
    assert!(names.len() > 20, "{names:?}");
    assert_eq!(listed(cache), names);
    assert_eq!(listed(breaker), setters(BREAKER, "with_"));
}

/// The defaults that the page names are those of the code.
#[test]
fn u193_the_page_tells_the_defaults() {
    let config = cachekit::breaker::BreakerConfig::new();
    for (option, value) in [
        ("count_operation_errors", config.count_operation_errors().to_string()),
        ("enabled", config.enabled().to_string()),
        ("failure_threshold", config.failure_threshold().to_string()),
        ("half_open_requests", config.half_open_requests().to_string()),
        ("recovery_timeout_secs", config.recovery_timeout().as_secs().to_string()),
        ("success_threshold", config.success_threshold().to_string()),
    ] {
        let row = PAGE.lines().find(|line| line.starts_with(&format!("| `{option}` |"))).unwrap();
        let told = row.split(" | ").nth(1).unwrap().trim_matches('`');
        assert_eq!(told, value, "{row}");
    }
    for (option, line) in [
        ("build_timeout` | 5 s", "build_timeout: Duration::from_secs(5)"),
        ("default_ttl` | 5 minutes", "default_ttl: Ttl::For(Duration::from_secs(300))"),
        ("flight_wait` | 10 s", "flight_wait: Duration::from_secs(10)"),
        ("max_bytes` | 64 MiB", "max_bytes: 64 << 20"),
        ("max_entries` | 100,000", "max_entries: 100_000"),
        ("max_value_bytes` | 4 MiB", "max_value_bytes: 4 << 20"),
        ("operation_timeout` | 500 ms", "operation_timeout: Duration::from_millis(500)"),
        ("untracked_l1_ttl` | 1 s", "untracked_l1_ttl: Duration::from_secs(1)"),
    ] {
        assert!(PAGE.contains(option) && BUILDER.contains(line), "{option}");
    }
}
