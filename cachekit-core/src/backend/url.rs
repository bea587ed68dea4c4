//! A URL that never prints its secrets.

use crate::{BackendError, ErrorKind};
use std::fmt;

/// The URL of a backend: `scheme://rest`. What stands in the rest is the backend's own affair.
///
/// `Debug` and `Display` hide the user info and every query value whose name speaks of a secret; only
/// [`expose`](Self::expose) shows them, to the driver.
///
/// ```
/// use cachekit_core::BackendUrl;
///
/// let url = BackendUrl::parse("redis://app:hunter2@cache.internal:6379/0?password=hunter2&db=3")?;
/// assert_eq!(url.scheme(), "redis");
/// assert_eq!(url.to_string(), "redis://***@cache.internal:6379/0?password=***&db=3");
/// # Ok::<(), cachekit_core::BackendError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct BackendUrl {
    text: String,
    scheme_len: usize,
}

impl BackendUrl {
    /// Splits off the scheme and checks its spelling.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) when there is no `://`, or the scheme is not made of lower-case
    /// letters, digits, `+`, `-` and `.` after a letter, or a control character occurs. The message repeats nothing of
    /// the text, since the text may hold a password.
    pub fn parse(text: &str) -> Result<Self, BackendError> {
        let invalid = |why| BackendError::new(ErrorKind::ConfigInvalid, why);
        let scheme_len = text.find("://").ok_or_else(|| invalid("not a URL: it holds no `://`"))?;
        let scheme = &text.as_bytes()[..scheme_len];
        let well_spelled = scheme.first().is_some_and(u8::is_ascii_lowercase)
            && scheme.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(b));
        if !well_spelled {
            return Err(invalid("not a URL: the scheme is a lower-case letter, then those, digits, `+`, `-` and `.`"));
        }
        if text.chars().any(char::is_control) {
            return Err(invalid("not a URL: it holds a control character"));
        }
        Ok(Self { text: text.to_owned(), scheme_len })
    }

    /// What stands before `://`.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.text[..self.scheme_len]
    }

    /// The whole URL, secrets included. Hand it to a driver; never log it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// What stands behind `://`, secrets included.
    #[must_use]
    pub fn expose_rest(&self) -> &str {
        &self.text[self.scheme_len + 3..]
    }

    /// What stands between `://` and the options, secrets included.
    #[must_use]
    pub fn expose_place(&self) -> &str {
        self.expose_rest().split_once('?').map_or(self.expose_rest(), |(place, _)| place)
    }

    pub(super) fn query(&self) -> &str {
        self.expose_rest().split_once('?').map_or("", |(_, query)| query)
    }

    /// Decodes a part of a URL: `%XX` is the byte with that hexadecimal number, everything else stands for itself.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) for a `%` without two hexadecimal digits, for what is not UTF-8, and for
    /// a NUL.
    pub fn decode(part: &str) -> Result<String, BackendError> {
        let invalid = |why| BackendError::new(ErrorKind::ConfigInvalid, why);
        let mut pieces = part.split('%');
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
}

impl fmt::Display for BackendUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before_query, query) = match self.expose_rest().split_once('?') {
            Some((before, query)) => (before, Some(query)),
            None => (self.expose_rest(), None),
        };
        write!(f, "{}://", self.scheme())?;
        // Up to the last `@`, wherever it stands: a password with a `/` or an `@` in it is hidden whole.
        match before_query.rsplit_once('@') {
            Some((_, after)) => write!(f, "***@{after}")?,
            None => f.write_str(before_query)?,
        }
        let Some(query) = query else { return Ok(()) };
        if query.contains('@') {
            // A `?` inside a password makes the rest of it look like a query.
            return f.write_str("?***");
        }
        for (i, pair) in query.split('&').enumerate() {
            f.write_str(if i == 0 { "?" } else { "&" })?;
            match pair.split_once('=') {
                Some((name, _)) if names_a_secret(name) => write!(f, "{name}=***")?,
                _ => f.write_str(pair)?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for BackendUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackendUrl({self})")
    }
}

fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "credential", "key", "pass", "pwd", "secret", "token"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_password_never_prints() {
        for text in [
            "redis://:canary@host",
            "redis://u:canary@host:1/0?x=1",
            "redis://u:p@canary@host",
            "redis://u:p/canary@host",
            "redis://u:p?canary@host",
            "redis://u:p#canary@host",
            "redis+unix:///run/r.sock?pass=canary",
            "redis://h?PASSWORD=canary&a=b",
            "redis://h?auth_token=canary",
            "memcache://u:canary@a:1,u:canary@b:2",
        ] {
            let url = BackendUrl::parse(text).unwrap();
            assert!(!format!("{url} {url:?} {url:#?}").contains("canary"), "{url}");
            assert_eq!(url.expose(), text);
        }
    }

    #[test]
    fn two_hexadecimal_digits_are_a_byte() {
        assert_eq!(BackendUrl::decode("/a%20b%3Fc%25d/%C3%A9é@#").unwrap(), "/a b?c%d/éé@#");
        for text in ["%", "%4", "%4g", "%+1", "%é", "%ff", "%00", "a%"] {
            assert!(BackendUrl::decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_url_is_refused_without_an_echo() {
        for text in [
            "",
            "canary",
            "canary:6379",
            "://canary",
            "Redis://canary",
            "9p://canary",
            "a b://canary",
            "redis://can\nary",
        ] {
            let error = BackendUrl::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
            assert!(!format!("{error} {error:?}").contains("canary"));
        }
    }
}
