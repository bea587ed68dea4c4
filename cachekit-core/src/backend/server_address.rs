//! Where a server listens.

use crate::{BackendError, ErrorKind};
use std::fmt;

/// A host name or an IP address, and a port.
///
/// ```
/// use cachekit_core::ServerAddress;
///
/// assert_eq!(ServerAddress::parse("cache.internal", 6379)?.to_string(), "cache.internal:6379");
/// let address = ServerAddress::parse("[::1]:7000", 6379)?;
/// assert_eq!((address.host.as_str(), address.port), ("::1", 7000));
/// assert_eq!(address.to_string(), "[::1]:7000");
/// # Ok::<(), cachekit_core::BackendError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "there is no third part")]
pub struct ServerAddress {
    /// A host name, or an IP address without brackets.
    pub host: String,
    /// From 1 to 65535.
    pub port: u16,
}

impl ServerAddress {
    /// Reads `host`, `host:port`, `[ip6]` or `[ip6]:port`.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) that says what is wrong and repeats nothing of the text, since half of a
    /// password may stand there.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, BackendError> {
        let invalid = |why| BackendError::new(ErrorKind::ConfigInvalid, why);
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) =
                    rest.split_once(']').ok_or_else(|| invalid("a `[` of an IPv6 address has no `]`"))?;
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
        if host.bytes().any(|byte| b" ,/\\%\"<>@".contains(&byte)) {
            return Err(invalid("the host holds a character that no host name has"));
        }
        let port = match port {
            None => default_port,
            Some(port) => {
                let digits = port.strip_prefix(':').filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
                let number = digits.and_then(|port| port.parse().ok()).filter(|port| *port != 0);
                number.ok_or_else(|| invalid("the port is not a number from 1 to 65535"))?
            }
        };
        Ok(Self { host: host.to_owned(), port })
    }

    /// Reads several, between commas.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn parse_list(text: &str, default_port: u16) -> Result<Vec<Self>, BackendError> {
        text.split(',').map(|address| Self::parse(address, default_port)).collect()
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named_and_not_repeated() {
        for (text, why) in [
            ("", "the host is empty"),
            (":1", "the host is empty"),
            ("canary:0", "the port is not a number"),
            ("canary:65536", "the port is not a number"),
            ("canary:+1", "the port is not a number"),
            ("canary:", "the port is not a number"),
            ("[canary", "no `]`"),
            ("[::1]1", "the port is not a number"),
            ("can ary", "no host name has"),
            ("can,ary", "no host name has"),
            ("u@canary", "no host name has"),
        ] {
            let error = ServerAddress::parse(text, 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConfigInvalid, "{text}");
            assert!(error.context().contains(why) && !error.context().contains("canary"), "{text}: {error}");
        }
        assert!(ServerAddress::parse_list("a,,b", 1).is_err());
        assert_eq!(ServerAddress::parse_list("a,b:2", 1).unwrap().len(), 2);
    }
}
