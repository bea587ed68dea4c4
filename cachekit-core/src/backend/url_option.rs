//! The options of a URL: `?name=value&name=value`.

use super::BackendUrl;
use crate::{BackendError, ErrorKind};
use std::fmt;
use std::time::Duration;

/// A year: more is a mistake, and would overflow where times are added.
const MOST_MILLIS: u64 = 31_536_000_000;

/// One option of a URL, with what it takes to read its value. `Debug` hides the value.
///
/// ```
/// use cachekit_core::BackendUrl;
/// use std::time::Duration;
///
/// let url = BackendUrl::parse("flatfile:///var/cache?sync_every_ms=250&create=false")?;
/// let (mut sync_every, mut create) = (Duration::from_secs(1), true);
/// for option in url.options("flatfile", &["create", "sync_every_ms"])? {
///     match option.name() {
///         "create" => create = option.flag()?,
///         _ => sync_every = option.millis()?,
///     }
/// }
/// assert_eq!((sync_every, create), (Duration::from_millis(250), false));
/// # Ok::<(), cachekit_core::BackendError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UrlOption<'a> {
    name: &'a str,
    value: &'a str,
}

impl BackendUrl {
    /// The options behind the `?`, in their order. `known` are the names of all there are, for the message about one that
    /// does not exist.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) for an option that does not exist, with the nearest that does, for one
    /// that is given twice, and for an `@`. What cannot be the name of an option is not repeated, since half of a password may stand there.
    pub fn options(&self, backend: &str, known: &[&str]) -> Result<Vec<UrlOption<'_>>, BackendError> {
        if self.query().contains('@') {
            // A `?` inside a password makes the rest of it look like options.
            return Err(invalid(
                "a `?` or an `@` in a user name, a password or a value has to be written as `%XX`".to_owned(),
            ));
        }
        let mut options: Vec<UrlOption<'_>> = Vec::new();
        for option in self.query().split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if !known.contains(&name) {
                return Err(unknown(backend, name, known));
            }
            if options.iter().any(|option| option.name == name) {
                return Err(invalid(format!("the option `{name}` is given twice")));
            }
            options.push(UrlOption { name, value });
        }
        Ok(options)
    }
}

impl<'a> UrlOption<'a> {
    /// What stands before the `=`.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// A whole number.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) for anything else, a sign or a unit too.
    pub fn number(&self) -> Result<u64, BackendError> {
        let digits = !self.value.is_empty() && self.value.bytes().all(|byte| byte.is_ascii_digit());
        let number = if digits { self.value.parse().ok() } else { None };
        number.ok_or_else(|| invalid(format!("the option `{}` takes a whole number", self.name)))
    }

    /// A whole number of bytes; what this machine cannot address is the most it can.
    ///
    /// # Errors
    ///
    /// As [`number`](Self::number).
    pub fn bytes(&self) -> Result<usize, BackendError> {
        Ok(usize::try_from(self.number()?).unwrap_or(usize::MAX))
    }

    /// A whole number of milliseconds, at most a year.
    ///
    /// # Errors
    ///
    /// As [`number`](Self::number), and for more than a year.
    pub fn millis(&self) -> Result<Duration, BackendError> {
        let millis = self.number()?;
        if millis > MOST_MILLIS {
            return Err(invalid(format!("the option `{}` is more than a year", self.name)));
        }
        Ok(Duration::from_millis(millis))
    }

    /// `true` or `false`.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) for anything else.
    pub fn flag(&self) -> Result<bool, BackendError> {
        self.one_of(&[("true", true), ("false", false)])
    }

    /// The meaning of one of a few words.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) for any other word, with those there are.
    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, BackendError> {
        let meaning = words.iter().find(|(word, _)| *word == self.value).map(|(_, meaning)| *meaning);
        meaning.ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            invalid(format!("the option `{}` takes {}", self.name, words.join(" or ")))
        })
    }

    /// Text, in which `%XX` is a byte. It may be a secret.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) for a `%` without two hexadecimal digits, for what is not UTF-8, and for
    /// a NUL.
    pub fn expose_text(&self) -> Result<String, BackendError> {
        BackendUrl::decode(self.value)
    }

    /// The path of a file, in which `%XX` is a byte.
    ///
    /// # Errors
    ///
    /// As [`expose_text`](Self::expose_text), and for an empty one.
    pub fn path(&self) -> Result<String, BackendError> {
        let path = BackendUrl::decode(self.value)?;
        if path.is_empty() {
            return Err(invalid(format!("the option `{}` takes the path of a file", self.name)));
        }
        Ok(path)
    }
}

impl fmt::Debug for UrlOption<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UrlOption({}=***)", self.name)
    }
}

fn invalid(why: String) -> BackendError {
    BackendError::new(ErrorKind::ConfigInvalid, why)
}

fn unknown(backend: &str, name: &str, known: &[&str]) -> BackendError {
    let all = known.join(", ");
    if !name.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_-".contains(&byte)) || name.len() > 32 {
        return invalid(format!("{backend} has no such option; all are {all}"));
    }
    // Who leaves the unit out means the option that begins so, however long its rest is.
    let nearest = known.iter().min_by_key(|known| (!known.starts_with(name), distance(known, name)));
    let nearest = nearest.copied().unwrap_or_default();
    invalid(format!("{backend} has no option `{name}`: the nearest is `{nearest}`, all are {all}"))
}

/// How many letters have to be added, left out or replaced to get from one to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 3] = ["flush_every_ms", "one", "two"];

    fn read(query: &str) -> Result<Vec<(String, String)>, BackendError> {
        let url = BackendUrl::parse(&format!("b://h?{query}")).unwrap();
        let options = url.options("b", &KNOWN)?;
        Ok(options.iter().map(|option| (option.name.to_owned(), option.value.to_owned())).collect())
    }

    #[test]
    fn options_keep_their_order() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read("two=2&one=a=b&").unwrap(), [pair("two", "2"), pair("one", "a=b")]);
        assert_eq!(read("").unwrap(), []);
        assert_eq!(read("one").unwrap(), [pair("one", "")]);
        assert!(read("one=1&one=1").unwrap_err().context().contains("`one` is given twice"));
    }

    #[test]
    fn half_of_a_password_is_not_repeated() {
        for name in ["hunter2", "p%ss", &"x".repeat(33), "a b"] {
            let error = read(name).unwrap_err().to_string();
            assert!(!error.contains(name) && error.contains("flush_every_ms, one, two"), "{error}");
        }
    }

    #[test]
    fn what_may_be_the_rest_of_a_password_is_not_read_as_options() {
        for text in ["b://u:half?canary&x@h", "b://u:half?one=canary@h"] {
            let error = BackendUrl::parse(text).unwrap().options("b", &KNOWN).unwrap_err();
            assert!(error.context().contains("%XX") && !error.to_string().contains("canary"), "{error}");
        }
    }

    #[test]
    fn the_nearest_option_is_named() {
        for (name, nearest) in [("on", "one"), ("tow", "two"), ("flush", "flush_every_ms")] {
            let error = read(name).unwrap_err().to_string();
            assert!(error.contains(&format!("nearest is `{nearest}`")), "{error}");
        }
    }

    #[test]
    fn values_are_read_or_refused_by_name() {
        let option = |value| UrlOption { name: "one", value };
        assert_eq!(option("0042").number().unwrap(), 42);
        assert_eq!(option("1500").millis().unwrap(), Duration::from_millis(1_500));
        assert_eq!(option("7").bytes().unwrap(), 7);
        assert!(option("true").flag().unwrap() && !option("false").flag().unwrap());
        assert_eq!(option("b").one_of(&[("a", 1), ("b", 2)]).unwrap(), 2);
        assert_eq!(option("a%20%C3%A9").expose_text().unwrap(), "a é");
        assert_eq!(option("/a%3Fb").path().unwrap(), "/a?b");
        for value in ["", "-1", "+1", "1s", "99999999999999999999"] {
            assert!(option(value).number().unwrap_err().context().contains("`one` takes a whole number"), "{value}");
        }
        assert!(option("31536000001").millis().unwrap_err().context().contains("more than a year"));
        assert!(option("yes").flag().unwrap_err().context().contains("`one` takes `true` or `false`"));
        assert!(option("").path().unwrap_err().context().contains("the path of a file"));
        assert!(!format!("{:?}", option("canary")).contains("canary"));
    }
}
