//! What an entry is called: `{namespace}:{key}`, or `{namespace}@{tenant}:{key}`.

use crate::ErrorKind;
use crate::cache::Error;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// The longest stored key, in bytes, prefix included.
pub(crate) const MAX_STORED_KEY_BYTES: usize = 1_024;
const MAX_NAME_BYTES: usize = 64;

/// A namespace, or one tenant of it: what all stored keys of a cache handle begin with.
#[derive(Clone)]
pub(crate) struct Scope {
    prefix: Arc<str>,
    namespace_len: usize,
    hash: u64,
}

impl Scope {
    pub(crate) fn of_namespace(namespace: &str) -> Result<Self, Error> {
        check_name("namespace", namespace)?;
        Ok(Self::new(format!("{namespace}:"), namespace.len()))
    }

    pub(crate) fn for_tenant(&self, tenant: &str) -> Result<Self, Error> {
        check_name("tenant", tenant)?;
        Ok(Self::new(format!("{}@{tenant}:", self.namespace()), self.namespace_len))
    }

    fn new(prefix: String, namespace_len: usize) -> Self {
        let hash = hash_prefix(&prefix);
        Self { prefix: prefix.into(), namespace_len, hash }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.prefix[..self.namespace_len]
    }

    pub(crate) fn tenant(&self) -> Option<&str> {
        self.prefix[self.namespace_len..].strip_prefix('@')?.strip_suffix(':')
    }

    /// With the colon: what a backend clears.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What the stored keys of all tenants of this namespace begin with.
    pub(crate) fn tenants_prefix(&self) -> String {
        format!("{}@", self.namespace())
    }

    /// How a key of this scope is looked up before it is checked or joined. Whatever is found under it was checked.
    pub(crate) fn lookup<'a>(&'a self, key: &'a str) -> Lookup<'a> {
        Lookup { scope: self, key }
    }

    /// Checks a key and joins it to the scope.
    pub(crate) fn key(&self, key: &str) -> Result<Key, Error> {
        let invalid = |why: String| Err(Error::new(ErrorKind::KeyInvalid, why));
        if key.is_empty() {
            return invalid("the key is empty".to_owned());
        }
        let stored_len = self.prefix.len() + key.len();
        if stored_len > MAX_STORED_KEY_BYTES {
            return invalid(format!(
                "the key is too long: {stored_len} bytes with its prefix, at most {MAX_STORED_KEY_BYTES}"
            ));
        }
        if let Some(at) = key.char_indices().find_map(|(at, c)| c.is_control().then_some(at)) {
            return invalid(format!("the key holds a control character at byte {at}"));
        }
        let mut stored = String::with_capacity(stored_len);
        stored.push_str(&self.prefix);
        stored.push_str(key);
        Ok(Key { stored: stored.into(), prefix_len: self.prefix.len() })
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scope").field(&self.prefix).finish()
    }
}

fn check_name(what: &str, name: &str) -> Result<(), Error> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(allowed) {
        return Err(Error::new(
            ErrorKind::ConfigInvalid,
            format!(
                "a {what} is 1 to {MAX_NAME_BYTES} letters, digits, `.`, `_` and `-`; this one has {} bytes",
                name.len()
            ),
        ));
    }
    Ok(())
}

/// A checked key together with its scope, exactly as a backend stores it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key {
    stored: Arc<str>,
    prefix_len: usize,
}

impl Key {
    pub(crate) fn stored(&self) -> &str {
        &self.stored
    }

    /// A key that a backend names. No namespace and no tenant holds a colon, so the first one ends the prefix.
    pub(crate) fn of_stored(stored: &str) -> Option<Self> {
        let prefix_len = stored.find(':')? + 1;
        Some(Self { stored: stored.into(), prefix_len })
    }

    /// The same key under the name that a sealer gave it, which begins with the same prefix.
    pub(crate) fn renamed(&self, stored: &str) -> Self {
        Self { stored: stored.into(), prefix_len: self.prefix_len }
    }

    pub(crate) fn is_in(&self, scope: &Scope) -> bool {
        *self.prefix() == *scope.prefix
    }

    fn prefix(&self) -> &str {
        &self.stored[..self.prefix_len]
    }

    /// As the caller gave it.
    pub(crate) fn text(&self) -> &str {
        &self.stored[self.prefix_len..]
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.stored).finish()
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_parts(hash_prefix(self.prefix()), self.text(), state);
    }
}

/// A key as the caller gave it: nothing was checked, joined or allocated.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    scope: &'a Scope,
    key: &'a str,
}

impl Hash for Lookup<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_parts(self.scope.hash, self.key, state);
    }
}

impl quick_cache::Equivalent<Key> for Lookup<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *key.text() == *self.key && key.is_in(self.scope)
    }
}

/// The same for a [`Key`] and the [`Lookup`] that finds it. The prefix's hash is made once per scope.
fn hash_parts<H: Hasher>(prefix_hash: u64, text: &str, state: &mut H) {
    state.write_u64(prefix_hash);
    state.write(text.as_bytes());
}

fn hash_prefix(prefix: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(prefix.as_bytes())
}

/// XXH3 with a seed that differs from process to process, so that nobody outside can line up colliding keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHashBuilder {
    seed: u64,
}

impl KeyHashBuilder {
    pub(crate) fn new() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        Self { seed: *SEED.get_or_init(|| std::hash::RandomState::new().hash_one(0_u64)) }
    }
}

impl Default for KeyHashBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BuildHasher for KeyHashBuilder {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher { state: self.seed }
    }
}

#[derive(Debug)]
pub(crate) struct KeyHasher {
    state: u64,
}

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.state = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, self.state);
    }

    fn write_u64(&mut self, value: u64) {
        // Only ever followed by `write`, which mixes.
        self.state ^= value;
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quick_cache::Equivalent;

    fn users() -> Scope {
        Scope::of_namespace("users").unwrap()
    }

    #[test]
    fn u148_stored_keys_are_frozen() {
        for (namespace, tenant, key, stored) in [
            ("users", None, "42", "users:42"),
            ("q", None, "k", "q:k"),
            ("a", None, "b:c", "a:b:c"),
            ("a", None, ":", "a::"),
            ("a", None, "a:", "a:a:"),
            ("a.b_c-d", None, " ", "a.b_c-d: "),
            ("A", None, "A", "A:A"),
            ("0", None, "0", "0:0"),
            ("-", None, "-", "-:-"),
            (".", None, ".", ".:."),
            ("_", None, "_", "_:_"),
            ("n", None, "a b", "n:a b"),
            ("n", None, " a", "n: a"),
            ("n", None, "a ", "n:a "),
            ("n", None, "%20", "n:%20"),
            ("n", None, "a/b?c=d&e", "n:a/b?c=d&e"),
            ("n", None, "{tag}k", "n:{tag}k"),
            ("n", None, "*", "n:*"),
            ("n", None, "[a-z]", "n:[a-z]"),
            ("n", None, "\\", "n:\\"),
            ("n", None, "\"'`", "n:\"'`"),
            ("n", None, "é", "n:é"),
            ("n", None, "e\u{301}", "n:e\u{301}"),
            ("n", None, "ﬁ", "n:ﬁ"),
            ("n", None, "\u{200b}", "n:\u{200b}"),
            ("users", None, "é✓🦀", "users:é✓🦀"),
            ("users", None, "@acme:42", "users:@acme:42"),
            ("users", Some("acme"), "42", "users@acme:42"),
            ("users", Some("a.b"), "a:b", "users@a.b:a:b"),
            ("users", Some("users"), "users", "users@users:users"),
        ] {
            let mut scope = Scope::of_namespace(namespace).unwrap();
            if let Some(tenant) = tenant {
                scope = scope.for_tenant(tenant).unwrap();
            }
            assert_eq!(scope.key(key).unwrap().stored(), stored);
            assert_eq!((scope.namespace(), scope.tenant()), (namespace, tenant));
        }
    }

    #[test]
    fn bad_keys_are_refused_with_the_reason() {
        let longest = "k".repeat(MAX_STORED_KEY_BYTES - "users:".len());
        assert!(users().key(&longest).is_ok());
        for (key, why) in [
            (String::new(), "empty"),
            (longest + "k", "1025 bytes"),
            ("a\0b".to_owned(), "byte 1"),
            ("a\r\nb".to_owned(), "byte 1"),
            ("\u{7f}".to_owned(), "byte 0"),
            ("é\u{85}".to_owned(), "byte 2"),
        ] {
            let error = users().key(&key).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::KeyInvalid);
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn bad_names_are_refused() {
        for name in ["", "a:b", "a@b", "a b", "é", &"n".repeat(65)] {
            assert_eq!(Scope::of_namespace(name).unwrap_err().kind(), ErrorKind::ConfigInvalid);
            assert_eq!(users().for_tenant(name).unwrap_err().kind(), ErrorKind::ConfigInvalid);
        }
    }

    #[test]
    fn a_lookup_finds_its_key_and_no_other() {
        let builder = KeyHashBuilder::new();
        let (users, acme) = (users(), users().for_tenant("acme").unwrap());
        let key = users.key("42").unwrap();
        assert_eq!(builder.hash_one(users.lookup("42")), builder.hash_one(&key));
        assert!(users.lookup("42").equivalent(&key));
        assert!(!users.lookup("43").equivalent(&key));
        assert!(!acme.lookup("42").equivalent(&key));
        assert_ne!(builder.hash_one(acme.lookup("42")), builder.hash_one(&key));
    }
}
