//! Which URL scheme is which backend.

use crate::{BackendError, BackendFactory, BackendUrl, ErrorKind};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Makes a factory from a URL, without I/O.
pub type FactoryConstructor = fn(&BackendUrl) -> Result<Arc<dyn BackendFactory>, BackendError>;

/// The schemes of this project's own backends, and the feature of the facade that brings each.
const FIRST_PARTY: [(&str, &str); 7] = [
    ("memcache", "memcached"),
    ("redis", "redis"),
    ("redis+cluster", "redis-cluster"),
    ("redis+sentinel", "redis-sentinel"),
    ("redis+unix", "redis"),
    ("rediss", "redis-tls"),
    ("sled", "sled"),
];

/// Maps URL schemes to backends. A plain value: there is no global one.
///
/// ```
/// use cachekit_core::{BackendError, BackendFactory, BackendUrl, ErrorKind, Registry};
/// use std::sync::Arc;
///
/// fn flatfile(_url: &BackendUrl) -> Result<Arc<dyn BackendFactory>, BackendError> {
///     Err(BackendError::new(ErrorKind::ConfigInvalid, "flatfile:// takes a path"))
/// }
///
/// let mut registry = Registry::new();
/// registry.register("flatfile", flatfile)?;
/// assert_eq!(registry.schemes().collect::<Vec<_>>(), ["flatfile"]);
/// assert!(registry.register("flatfile", flatfile).is_err(), "twice is an error");
///
/// let error = registry.factory("sled:///var/cache/app").unwrap_err();
/// assert!(error.to_string().contains("feature `sled`"), "{error}");
/// # Ok::<(), BackendError>(())
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    constructors: BTreeMap<String, FactoryConstructor>,
}

impl Registry {
    /// A registry that knows no scheme.
    #[must_use]
    pub const fn new() -> Self {
        Self { constructors: BTreeMap::new() }
    }

    /// Adds a scheme.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) when the scheme is taken, or is not one that a URL can have.
    pub fn register(&mut self, scheme: &str, constructor: FactoryConstructor) -> Result<(), BackendError> {
        let parsed = BackendUrl::parse(&format!("{scheme}://"))?;
        if parsed.scheme() != scheme {
            return Err(BackendError::new(ErrorKind::ConfigInvalid, "a scheme holds no `://`"));
        }
        if self.constructors.contains_key(scheme) {
            return Err(BackendError::new(
                ErrorKind::ConfigInvalid,
                format!("the scheme `{scheme}` is registered already"),
            ));
        }
        self.constructors.insert(scheme.to_owned(), constructor);
        Ok(())
    }

    /// The schemes there are, in alphabetical order.
    pub fn schemes(&self) -> impl Iterator<Item = &str> {
        self.constructors.keys().map(String::as_str)
    }

    /// The factory for a URL. Nothing is contacted.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) when it is no URL, when the backend finds fault with the rest of it,
    /// or when nobody registered the scheme; then the message lists the schemes there are, and for a backend of this
    /// project that is not compiled in names the feature to enable.
    pub fn factory(&self, url: &str) -> Result<Arc<dyn BackendFactory>, BackendError> {
        let url = BackendUrl::parse(url)?;
        match self.constructors.get(url.scheme()) {
            Some(constructor) => constructor(&url),
            None => Err(BackendError::new(ErrorKind::ConfigInvalid, self.unknown_scheme(url.scheme()))),
        }
    }

    fn unknown_scheme(&self, scheme: &str) -> String {
        let known: Vec<_> = self.schemes().map(|s| format!("`{s}`")).collect();
        let known = if known.is_empty() { "none is".to_owned() } else { known.join(", ") };
        match FIRST_PARTY.iter().find(|(s, _)| *s == scheme) {
            Some((_, feature)) => {
                format!(
                    "the scheme `{scheme}` is not compiled in: enable the feature `{feature}` (registered: {known})"
                )
            }
            None => format!("unknown scheme `{scheme}` (registered: {known})"),
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.schemes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(_: &BackendUrl) -> Result<Arc<dyn BackendFactory>, BackendError> {
        Err(BackendError::new(ErrorKind::ConfigInvalid, "reached the constructor"))
    }

    #[test]
    fn an_unknown_scheme_lists_the_schemes_there_are() {
        let mut registry = Registry::new();
        registry.register("beta", refuse).unwrap();
        registry.register("alpha", refuse).unwrap();
        let message = registry.factory("gamma://u:canary@x").unwrap_err().to_string();
        assert!(message.contains("unknown scheme `gamma` (registered: `alpha`, `beta`)"), "{message}");
        assert!(!message.contains("canary"));
        assert!(registry.factory("alpha://x").unwrap_err().to_string().contains("reached the constructor"));
    }

    #[test]
    fn a_scheme_no_url_can_have_is_refused() {
        for scheme in ["", "Beta", "a://b", "a b", "1a"] {
            assert_eq!(Registry::new().register(scheme, refuse).unwrap_err().kind(), ErrorKind::ConfigInvalid);
        }
    }
}
