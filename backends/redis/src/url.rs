//! The spelling of the settings in a URL.

use crate::RedisConfig;
use crate::config::{Credentials, DEFAULT_PORT, DEFAULT_SENTINEL_PORT, Place, Protocol, Secret, invalid};
use cachekit_core::{BackendError, BackendUrl, ServerAddress};

/// The schemes, and what has to be compiled in for each.
pub(crate) const SCHEMES: [(&str, bool); 5] = [
    ("redis", true),
    ("redis+cluster", cfg!(feature = "cluster")),
    ("redis+sentinel", cfg!(feature = "sentinel")),
    ("redis+unix", cfg!(unix)),
    ("rediss", cfg!(feature = "tls")),
];

const OPTIONS: [&str; 16] = [
    "ca",
    "client_cert",
    "client_info",
    "client_key",
    "connect_timeout_ms",
    "db",
    "down_wait_ms",
    "keepalive_ms",
    "max_value_bytes",
    "nodelay",
    "operation_timeout_ms",
    "protocol",
    "sentinel_password",
    "sentinel_username",
    "tls",
    "user_timeout_ms",
];

pub(crate) fn parse(url: &BackendUrl) -> Result<RedisConfig, BackendError> {
    let (rest, before) = (url.expose_rest(), url.expose_place());
    // A password with one of these in it would be cut in two, and its second half taken for something else.
    if before.matches('@').count() > 1 || rest[before.len()..].contains('@') || rest.contains('#') {
        return Err(invalid("a `/`, `?`, `#` or `@` in a user name, a password or a value has to be written as `%XX`"));
    }
    let (user, place) = before.rsplit_once('@').unwrap_or(("", before));
    if user.contains('/') {
        return Err(invalid("a `/` in a user name or a password has to be written as `%2F`"));
    }
    let mut config = RedisConfig::new(Place::Unix(String::new().into()));
    config.credentials = credentials(user)?;
    config.tls.on = url.scheme() == "rediss";
    match url.scheme() {
        "redis" | "rediss" => {
            let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
            config.place = Place::Server(ServerAddress::parse(hosts, DEFAULT_PORT)?);
            config.database = database_in_path(database)?;
        }
        "redis+cluster" => {
            let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
            config.place = Place::Cluster(ServerAddress::parse_list(hosts, DEFAULT_PORT)?);
            config.database = database_in_path(database)?;
        }
        "redis+sentinel" => {
            let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
            let (master, database) = path.split_once('/').unwrap_or((path, ""));
            let master = BackendUrl::decode(master)?;
            config.place =
                Place::Sentinel { sentinels: ServerAddress::parse_list(hosts, DEFAULT_SENTINEL_PORT)?, master };
            config.database = database_in_path(database)?;
        }
        "redis+unix" => config.place = Place::Unix(BackendUrl::decode(place)?.into()),
        scheme => return Err(invalid(format!("`{scheme}` is not a scheme of Redis"))),
    }
    options(&mut config, url)?;
    config.validate()?;
    Ok(config)
}

fn options(config: &mut RedisConfig, url: &BackendUrl) -> Result<(), BackendError> {
    let (mut certificate, mut key) = (None, None);
    for option in url.options("redis", &OPTIONS)? {
        match option.name() {
            "ca" => config.tls.ca = Some(option.path()?.into()),
            "client_cert" => certificate = Some(option.path()?),
            "client_info" => config.client_info = option.flag()?,
            "client_key" => key = Some(option.path()?),
            "connect_timeout_ms" => config.connect_timeout = option.millis()?,
            "db" if config.database != 0 => return Err(invalid("the database is given twice")),
            "db" => config.database = database(&option.expose_text()?)?,
            "down_wait_ms" => config.down_wait = option.millis()?,
            "keepalive_ms" => config.keepalive = Some(option.millis()?).filter(|time| !time.is_zero()),
            "max_value_bytes" => config.max_value_bytes = option.bytes()?,
            "nodelay" => config.nodelay = option.flag()?,
            "operation_timeout_ms" => config.operation_timeout = option.millis()?,
            "protocol" => config.protocol = option.one_of(&[("2", Protocol::Resp2), ("3", Protocol::Resp3)])?,
            "sentinel_password" => config.sentinel_credentials.password = Some(Secret(option.expose_text()?)),
            "sentinel_username" => config.sentinel_credentials.username = Some(option.expose_text()?),
            "tls" => match (url.scheme(), option.flag()?) {
                // The name of the scheme is a promise.
                ("rediss", false) => return Err(invalid("rediss:// is TLS: use redis:// without it")),
                (_, on) => config.tls.on = on,
            },
            _ => config.user_timeout = Some(option.millis()?).filter(|time| !time.is_zero()),
        }
    }
    config.tls.client = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
        (None, None) => None,
        _ => return Err(invalid("`client_cert` and `client_key` are given together or not at all")),
    };
    if !config.tls.on && (config.tls.ca.is_some() || config.tls.client.is_some()) {
        return Err(invalid("a certificate is given, and TLS is off: use rediss:// or `tls=true`"));
    }
    let for_sentinels = config.sentinel_credentials != Credentials::default();
    if for_sentinels && !matches!(config.place, Place::Sentinel { .. }) {
        return Err(invalid("the options `sentinel_...` are for redis+sentinel:// only"));
    }
    Ok(())
}

/// `user:password`, `:password`, `user:` or nothing.
fn credentials(user: &str) -> Result<Credentials, BackendError> {
    let (username, password) = user.split_once(':').unwrap_or((user, ""));
    let given = |text: String| (!text.is_empty()).then_some(text);
    Ok(Credentials {
        username: given(BackendUrl::decode(username)?),
        password: given(BackendUrl::decode(password)?).map(Secret),
    })
}

fn database_in_path(text: &str) -> Result<u32, BackendError> {
    if text.is_empty() { Ok(0) } else { database(text) }
}

fn database(text: &str) -> Result<u32, BackendError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { text.parse().ok() } else { None };
    number.ok_or_else(|| invalid("the database is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cachekit_core::ErrorKind;
    use std::time::Duration;

    fn read(url: &str) -> Result<RedisConfig, BackendError> {
        parse(&BackendUrl::parse(url).unwrap())
    }

    #[test]
    fn places_are_read() {
        assert_eq!(read("redis://h").unwrap(), RedisConfig::server("h", 6379));
        assert_eq!(read("redis://[::1]:7/2").unwrap(), RedisConfig::server("::1", 7).with_database(2));
        assert_eq!(read("rediss://h:7/").unwrap(), RedisConfig::server("h", 7).with_tls(true));
        assert_eq!(
            read("redis+unix:///run/a%20b.sock?db=3").unwrap(),
            RedisConfig::unix("/run/a b.sock").with_database(3)
        );
        assert_eq!(read("redis+cluster://a,b:7").unwrap(), RedisConfig::cluster([("a", 6379), ("b", 7)]));
        assert_eq!(
            read("redis+sentinel://a,b:7/main/4").unwrap(),
            RedisConfig::sentinel([("a", 26379), ("b", 7)], "main").with_database(4)
        );
    }

    #[test]
    fn credentials_are_read() {
        assert_eq!(read("redis://:p%40s%2Fs@h").unwrap(), RedisConfig::server("h", 6379).with_password("p@s/s"));
        let named = RedisConfig::server("h", 6379).with_username("app").with_password("p:q");
        assert_eq!(read("redis://app:p:q@h").unwrap(), named);
        let sentinel = read("redis+sentinel://a/m?sentinel_username=s&sentinel_password=x%26").unwrap();
        let expected =
            RedisConfig::sentinel([("a", 26379)], "m").with_sentinel_username("s").with_sentinel_password("x&");
        assert_eq!(sentinel, expected);
    }

    #[test]
    fn every_option_is_read() {
        let url = "redis+cluster://h?ca=/ca&client_cert=/c&client_key=/k&client_info=false&connect_timeout_ms=1\
                   &down_wait_ms=2&keepalive_ms=3&max_value_bytes=4&nodelay=false&operation_timeout_ms=5&protocol=2\
                   &tls=true&user_timeout_ms=6";
        let ms = Duration::from_millis;
        let expected = RedisConfig::cluster([("h", 6379)])
            .with_ca("/ca")
            .with_client_certificate("/c", "/k")
            .with_client_info(false)
            .with_connect_timeout(ms(1))
            .with_down_wait(ms(2))
            .with_keepalive(Some(ms(3)))
            .with_max_value_bytes(4)
            .with_nodelay(false)
            .with_operation_timeout(ms(5))
            .with_protocol(Protocol::Resp2)
            .with_user_timeout(Some(ms(6)));
        assert_eq!(read(url).unwrap(), expected);
        let off = read("redis://h?keepalive_ms=0&user_timeout_ms=0").unwrap();
        assert_eq!((off.keepalive(), off.user_timeout()), (None, None));
    }

    /// U193: the names in the first column of the table of options.
    fn documented(text: &str) -> Vec<&str> {
        let rows = text.lines().map(|line| line.trim_start_matches("//! "));
        let rows = rows.skip_while(|line| !line.starts_with("| option ")).skip(2);
        let first = rows.map_while(|row| row.strip_prefix("| ")).filter_map(|row| row.split(" | ").next());
        let mut names: Vec<_> = first.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`')).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn u193_every_option_is_documented_once() {
        for text in [include_str!("lib.rs"), include_str!("../README.md")] {
            assert_eq!(documented(text), OPTIONS);
        }
    }

    #[test]
    fn an_unknown_option_names_the_nearest() {
        for (option, nearest) in [
            ("connect_timeout=1", "connect_timeout_ms"),
            ("timeout_ms=1", "user_timeout_ms"),
            ("max_value=1", "max_value_bytes"),
            ("no_delay=true", "nodelay"),
        ] {
            let error = read(&format!("redis://h?{option}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
            assert!(error.context().contains(&format!("the nearest is `{nearest}`")), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_and_the_password_never_printed() {
        for (url, why) in [
            ("redis://", "the host is empty"),
            ("redis://:canary@", "the host is empty"),
            ("redis://:can@ary@h", "written as `%XX`"),
            ("redis://:can/ary@h", "written as `%2F`"),
            ("redis://:can?ary@h", "written as `%XX`"),
            ("redis://:can#ary@h", "written as `%XX`"),
            ("redis://:can%ary@h", "hexadecimal"),
            ("redis://canary:@h", "without a password"),
            ("redis://:canary@h:0", "the port is not a number"),
            ("redis://:canary@h:65536", "the port is not a number"),
            ("redis://:canary@h:+1", "the port is not a number"),
            ("redis://:canary@h:", "the port is not a number"),
            ("redis://:canary@[::1", "no `]`"),
            ("redis://:canary@a b", "no host name has"),
            ("redis://:canary@a,b", "no host name has"),
            ("redis://:canary@h/x", "the database is not a number"),
            ("redis://:canary@h/1?db=2", "the database is given twice"),
            ("redis://:canary@h?nodelay=true&nodelay=true", "`nodelay` is given twice"),
            ("redis://:canary@h?nodelay=yes", "`nodelay` takes `true` or `false`"),
            ("redis://:canary@h?protocol=4", "`protocol` takes `2` or `3`"),
            ("redis://:canary@h?connect_timeout_ms=1s", "`connect_timeout_ms` takes a whole number"),
            ("redis://:canary@h?connect_timeout_ms=0", "`connect_timeout` is less than a millisecond"),
            ("redis://:canary@h?operation_timeout_ms=99999999999", "more than a year"),
            ("redis://:canary@h?max_value_bytes=536870913", "`max_value_bytes` is over"),
            ("redis://:canary@h?ca=/ca", "TLS is off"),
            ("rediss://:canary@h?client_cert=/c", "together"),
            ("rediss://:canary@h?tls=false", "rediss:// is TLS"),
            ("redis://:canary@h?sentinel_password=canary", "redis+sentinel:// only"),
            ("redis+unix://", "the path of the socket is empty"),
            ("redis+unix:///s?tls=true", "no TLS"),
            ("redis+cluster://:canary@h/1", "only the database 0"),
            ("redis+cluster://a,,b", "the host is empty"),
            ("redis+sentinel://h", "the name of the master is missing"),
            ("redis://h?can3ary=x", "no such option"),
            ("memcache://:canary@h", "not a scheme of Redis"),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConfigInvalid, "{url}");
            assert!(error.context().contains(why), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        }
        let config = read("redis+sentinel://u:canary@h/m?sentinel_password=canary").unwrap();
        assert!(!format!("{config:?} {config:#?}").contains("canary"));
    }
}
