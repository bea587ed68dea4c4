//! The spelling of the settings in a URL.

use crate::MemcachedConfig;
use crate::backend::NAME;
use crate::config::{DEFAULT_PORT, invalid};
use cachekit_core::{BackendError, BackendUrl, ServerAddress};

pub(crate) const SCHEME: &str = "memcache";

pub(crate) const OPTIONS: [&str; 8] = [
    "connect_timeout_ms",
    "max_connections",
    "max_idle_age_ms",
    "max_value_bytes",
    "open_after",
    "open_for_ms",
    "operation_timeout_ms",
    "resolve_every_ms",
];

pub(crate) fn parse(url: &BackendUrl) -> Result<MemcachedConfig, BackendError> {
    if url.scheme() != SCHEME {
        return Err(invalid(format!("`{}` is not a scheme of memcached", url.scheme())));
    }
    // First of all, so that no part of a password is taken for something else.
    if url.expose_rest().contains('@') {
        return Err(invalid("memcached knows no users and no passwords: leave out what stands before the `@`"));
    }
    if url.expose_rest().contains('#') {
        return Err(invalid("a `#` has no meaning here"));
    }
    let place = url.expose_place();
    let mut config =
        MemcachedConfig::new(ServerAddress::parse_list(place.strip_suffix('/').unwrap_or(place), DEFAULT_PORT)?);
    for option in url.options(NAME, &OPTIONS)? {
        match option.name() {
            "connect_timeout_ms" => config.connect_timeout = option.millis()?,
            "max_connections" => config.max_connections = option.bytes()?,
            "max_idle_age_ms" => config.max_idle_age = option.millis()?,
            "max_value_bytes" => config.max_value_bytes = option.bytes()?,
            "open_after" => config.open_after = u32::try_from(option.number()?).unwrap_or(u32::MAX),
            "open_for_ms" => config.open_for = option.millis()?,
            "operation_timeout_ms" => config.operation_timeout = option.millis()?,
            _ => config.resolve_every = Some(option.millis()?).filter(|time| !time.is_zero()),
        }
    }
    config.validate()?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cachekit_core::ErrorKind;
    use std::time::Duration;

    fn read(url: &str) -> Result<MemcachedConfig, BackendError> {
        parse(&BackendUrl::parse(url).unwrap())
    }

    #[test]
    fn servers_are_read_in_any_order() {
        assert_eq!(read("memcache://h").unwrap(), MemcachedConfig::server("h", 11211));
        assert_eq!(read("memcache://[::1]:7/").unwrap(), MemcachedConfig::server("::1", 7));
        let three = MemcachedConfig::servers([("a", 11211), ("b", 7), ("c", 11211)]);
        for url in ["memcache://a,b:7,c", "memcache://c,a:11211,B:7"] {
            assert_eq!(read(url).unwrap(), three, "{url}");
        }
    }

    #[test]
    fn every_option_is_read() {
        let url = "memcache://h?connect_timeout_ms=1&max_connections=2&max_idle_age_ms=3&max_value_bytes=4&open_after=5\
                   &open_for_ms=6&operation_timeout_ms=7&resolve_every_ms=8";
        let ms = Duration::from_millis;
        let expected = MemcachedConfig::server("h", 11211)
            .with_connect_timeout(ms(1))
            .with_max_connections(2)
            .with_max_idle_age(ms(3))
            .with_max_value_bytes(4)
            .with_open_after(5)
            .with_open_for(ms(6))
            .with_operation_timeout(ms(7))
            .with_resolve_every(Some(ms(8)));
        assert_eq!(read(url).unwrap(), expected);
        assert_eq!(url.matches('=').count(), OPTIONS.len());
        assert_eq!(read("memcache://h?resolve_every_ms=0").unwrap().resolve_every(), None);
    }

    /// The options in the first column of a table.
    fn documented(text: &str) -> Vec<&str> {
        let rows = text.lines().map(|line| line.trim_start_matches("//! "));
        let cells = rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next());
        // Another table is about errors, whose kinds begin with a capital letter.
        cells.filter(|cell| cell.starts_with(|letter: char| letter.is_ascii_lowercase())).collect()
    }

    #[test]
    fn every_option_is_documented_once() {
        for text in [include_str!("lib.rs"), include_str!("../README.md")] {
            assert_eq!(documented(text), OPTIONS);
        }
    }

    #[test]
    fn an_unknown_option_names_the_nearest() {
        for (option, nearest) in [
            ("connect_timeout=1", "connect_timeout_ms"),
            ("max_value=1", "max_value_bytes"),
            ("max_conns=1", "max_connections"),
            ("open=1", "open_after"),
            ("resolve=1", "resolve_every_ms"),
        ] {
            let error = read(&format!("memcache://h?{option}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
            assert!(error.context().contains(&format!("the nearest is `{nearest}`")), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_and_the_password_never_printed() {
        for (url, why) in [
            ("memcache://", "the host is empty"),
            ("memcache://user:canary@h", "no users and no passwords"),
            ("memcache://a,user:canary@h", "no users and no passwords"),
            ("memcache://user:can@ary@h", "no users and no passwords"),
            ("memcache://user:can/ary@h", "no users and no passwords"),
            ("memcache://user:can?ary@h", "no users and no passwords"),
            ("memcache://user:can#ary@h", "no users and no passwords"),
            ("memcache://h#canary", "`#` has no meaning"),
            ("memcache://h:0", "the port is not a number"),
            ("memcache://h:65536", "the port is not a number"),
            ("memcache://canary:", "the port is not a number"),
            ("memcache://[::1", "no `]`"),
            ("memcache://a b", "no host name has"),
            ("memcache://h/canary", "no host name has"),
            ("memcache://a,,b", "the host is empty"),
            ("memcache://a,b,A:11211", "the server a:11211 is given twice"),
            ("memcache://h?open_after=1&open_after=1", "`open_after` is given twice"),
            ("memcache://h?open_after=0", "`open_after` is zero"),
            ("memcache://h?max_connections=0", "`max_connections` is not a number from 1"),
            ("memcache://h?max_connections=many", "`max_connections` takes a whole number"),
            ("memcache://h?connect_timeout_ms=1s", "`connect_timeout_ms` takes a whole number"),
            ("memcache://h?connect_timeout_ms=0", "`connect_timeout` is less than a millisecond"),
            ("memcache://h?operation_timeout_ms=99999999999", "more than a year"),
            ("memcache://h?max_value_bytes=1073741824", "`max_value_bytes` is over"),
            ("memcache://h?can3ary=x", "no such option"),
            ("redis://h", "not a scheme of memcached"),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConfigInvalid, "{url}");
            assert!(error.context().contains(why), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        }
    }
}
