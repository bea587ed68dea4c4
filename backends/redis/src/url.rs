//! The spelling of the settings in a URL.

use crate::RedisConfig;
use crate::config::{Address, Credentials, DEFAULT_PORT, DEFAULT_SENTINEL_PORT, Place, Protocol, Secret, invalid};
use cachekit_core::{BackendError, BackendUrl, unknown_option};
use std::time::Duration;

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
    let rest = url.expose_rest();
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    // A password with one of these in it would be cut in two, and its second half taken for something else.
    if before.matches('@').count() > 1 || query.contains('@') || rest.contains('#') {
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
            config.place = Place::Server(address(hosts, DEFAULT_PORT)?);
            config.database = database_in_path(database)?;
        }
        "redis+cluster" => {
            let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
            config.place = Place::Cluster(addresses(hosts, DEFAULT_PORT)?);
            config.database = database_in_path(database)?;
        }
        "redis+sentinel" => {
            let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
            let (master, database) = path.split_once('/').unwrap_or((path, ""));
            let master = decode(master)?;
            config.place = Place::Sentinel { sentinels: addresses(hosts, DEFAULT_SENTINEL_PORT)?, master };
            config.database = database_in_path(database)?;
        }
        "redis+unix" => config.place = Place::Unix(decode(place)?.into()),
        scheme => return Err(invalid(format!("`{scheme}` is not a scheme of Redis"))),
    }
    options(&mut config, query)?;
    config.validate()?;
    Ok(config)
}

fn options(config: &mut RedisConfig, query: &str) -> Result<(), BackendError> {
    let mut seen = Vec::new();
    let (mut certificate, mut key) = (None, None);
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if !OPTIONS.contains(&name) {
            return Err(unknown_option("redis", name, &OPTIONS));
        }
        if seen.contains(&name) {
            return Err(invalid(format!("the option `{name}` is given twice")));
        }
        seen.push(name);
        match name {
            "ca" => config.tls.ca = Some(path(name, value)?.into()),
            "client_cert" => certificate = Some(path(name, value)?),
            "client_info" => config.client_info = flag(name, value)?,
            "client_key" => key = Some(path(name, value)?),
            "connect_timeout_ms" => config.connect_timeout = millis(name, value)?,
            "db" if config.database != 0 => return Err(invalid("the database is given twice")),
            "db" => config.database = database(value)?,
            "down_wait_ms" => config.down_wait = millis(name, value)?,
            "keepalive_ms" => config.keepalive = Some(millis(name, value)?).filter(|time| !time.is_zero()),
            "max_value_bytes" => config.max_value_bytes = usize::try_from(number(name, value)?).unwrap_or(usize::MAX),
            "nodelay" => config.nodelay = flag(name, value)?,
            "operation_timeout_ms" => config.operation_timeout = millis(name, value)?,
            "protocol" => config.protocol = protocol(value)?,
            "sentinel_password" => config.sentinel_credentials.password = Some(Secret(decode(value)?)),
            "sentinel_username" => config.sentinel_credentials.username = Some(decode(value)?),
            "tls" => config.tls.on = flag(name, value)?,
            _ => config.user_timeout = Some(millis(name, value)?).filter(|time| !time.is_zero()),
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
    Ok(Credentials { username: given(decode(username)?), password: given(decode(password)?).map(Secret) })
}

fn addresses(hosts: &str, default: u16) -> Result<Vec<Address>, BackendError> {
    hosts.split(',').map(|host| address(host, default)).collect()
}

/// `host`, `host:port`, `[ip6]` or `[ip6]:port`.
fn address(text: &str, default: u16) -> Result<Address, BackendError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(|| invalid("a `[` of an IPv6 address has no `]`"))?;
            (host, (!port.is_empty()).then_some(port))
        }
        None => match text.find(':') {
            Some(at) => (&text[..at], Some(&text[at..])),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(invalid("the host is empty"));
    }
    if host.bytes().any(|byte| b" ,\\%\"<>".contains(&byte)) {
        return Err(invalid("the host holds a character that no host name has"));
    }
    let port = match port {
        None => default,
        Some(port) => {
            let number = port.strip_prefix(':').filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
            let number = number.and_then(|port| port.parse().ok()).filter(|port| *port != 0);
            number.ok_or_else(|| invalid("the port is not a number from 1 to 65535"))?
        }
    };
    Ok(Address { host: host.to_owned(), port })
}

fn database_in_path(text: &str) -> Result<u32, BackendError> {
    if text.is_empty() { Ok(0) } else { database(text) }
}

fn database(text: &str) -> Result<u32, BackendError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { text.parse().ok() } else { None };
    number.ok_or_else(|| invalid("the database is not a number"))
}

fn number(name: &str, value: &str) -> Result<u64, BackendError> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = if digits { value.parse().ok() } else { None };
    parsed.ok_or_else(|| invalid(format!("the option `{name}` takes a whole number")))
}

fn millis(name: &str, value: &str) -> Result<Duration, BackendError> {
    // A year: more is a mistake, and would overflow where times are added.
    let ms = number(name, value)?;
    if ms > 31_536_000_000 {
        return Err(invalid(format!("the option `{name}` is more than a year")));
    }
    Ok(Duration::from_millis(ms))
}

fn flag(name: &str, value: &str) -> Result<bool, BackendError> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid(format!("the option `{name}` takes `true` or `false`"))),
    }
}

fn protocol(value: &str) -> Result<Protocol, BackendError> {
    match value {
        "2" => Ok(Protocol::Resp2),
        "3" => Ok(Protocol::Resp3),
        _ => Err(invalid("the option `protocol` takes `2` or `3`")),
    }
}

fn path(name: &str, value: &str) -> Result<String, BackendError> {
    let path = decode(value)?;
    if path.is_empty() { Err(invalid(format!("the option `{name}` takes the path of a file"))) } else { Ok(path) }
}

/// `%XX` becomes a byte; everything else stands for itself.
fn decode(text: &str) -> Result<String, BackendError> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let hex = piece.get(..2).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.ok_or_else(|| invalid("a `%` is not followed by two hexadecimal digits"))?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    let text = String::from_utf8(bytes).map_err(|_| invalid("what is written as `%XX` is not UTF-8"))?;
    if text.contains('\0') {
        return Err(invalid("a NUL is written as `%00`"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cachekit_core::ErrorKind;

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

    #[test]
    fn an_unknown_option_names_the_nearest() {
        for (option, nearest) in [
            ("connect_timeout=1", "connect_timeout_ms"),
            ("timeout_ms=1", "user_timeout_ms"),
            ("databse=1", "db"),
            ("max_value=1", "max_value_bytes"),
            ("no_delay=true", "nodelay"),
            ("resp=3", "db"),
        ] {
            let error = read(&format!("redis://h?{option}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
            let named = error.context().contains(&format!("the nearest is `{nearest}`"));
            assert!(named || ["databse=1", "resp=3"].contains(&option), "{error}");
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
