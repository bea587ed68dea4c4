//! What a key is called on the server.

use cachekit_core::{BackendError, ErrorKind};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// memcached takes 250 bytes; what is longer than this becomes a digest.
const MOST_PLAIN_BYTES: usize = 200;
/// What no plain name starts with: what does is the name of a digest.
const ESCAPE: u8 = b'~';
const ENTRY: &str = "~1";
const LOCK: &str = "~L";

/// The name of an entry: the key itself where memcached takes it, otherwise its digest.
pub(crate) fn entry(key: &str) -> Result<Cow<'_, str>, BackendError> {
    if key.is_empty() {
        return Err(BackendError::new(ErrorKind::KeyInvalid, "the key is empty"));
    }
    let bytes = key.as_bytes();
    let is_plain = bytes.len() <= MOST_PLAIN_BYTES
        && bytes[0] != ESCAPE
        // No space, no control character, nothing beyond ASCII: none of them can end or begin a command.
        && bytes.iter().all(|byte| (0x21..=0x7e).contains(byte));
    Ok(if is_plain { Cow::Borrowed(key) } else { Cow::Owned(digest(ENTRY, key)) })
}

/// The name of a lock, which no entry has.
pub(crate) fn lock(key: &str) -> Result<String, BackendError> {
    if key.is_empty() {
        return Err(BackendError::new(ErrorKind::KeyInvalid, "the key is empty"));
    }
    Ok(digest(LOCK, key))
}

/// 45 bytes. Never a part of the key: two keys that differ anywhere never meet.
fn digest(prefix: &str, key: &str) -> String {
    let mut name = String::with_capacity(45);
    name.push_str(prefix);
    base64url(&Sha256::digest(key), &mut name);
    name
}

/// Without padding, as in section 5 of RFC 4648.
fn base64url(bytes: &[u8], text: &mut String) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * (3 - chunk.len()));
        for sextet in 0..=chunk.len() {
            text.push(char::from(ALPHABET[bits >> (18 - 6 * sextet) & 63]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: &str) -> String {
        entry(key).unwrap().into_owned()
    }

    #[test]
    fn plain_keys_stay_as_they_are() {
        let longest = "k".repeat(MOST_PLAIN_BYTES);
        for key in ["a", "users:42", "a~", "!", "}", "-_.@%", &longest] {
            assert_eq!(name(key), key);
        }
    }

    /// Pinned: an upgrade must find what an older version stored. The digest of one space is that of `sha256sum`.
    #[test]
    fn all_other_keys_become_digests() {
        assert_eq!(name(" "), "~1Nqnn8clbgv-5l0PgxcTOldg8mkMKrFn4TvPL-rYUUGg");
        let long = "k".repeat(MOST_PLAIN_BYTES + 1);
        for key in [" ", "~", "~1", "a b", "a\r\nflush_all\r\n", "a\0", "é", "\u{7f}", &long] {
            let name = name(key);
            assert!(name.len() == 45 && name.starts_with("~1"), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"~-_".contains(&byte)), "{name}");
        }
        assert_ne!(name("a b"), name("a  b"));
        assert_ne!(name(&long), name(&format!("{long}k")));
    }

    #[test]
    fn locks_never_meet_entries() {
        for key in ["a", "~", "~L", "a b", &lock("a").unwrap()] {
            assert!(lock(key).unwrap().starts_with("~L") && lock(key).unwrap().len() == 45);
            assert!(!name(key).starts_with("~L"), "{key}");
        }
        assert_eq!(entry("").unwrap_err().kind(), ErrorKind::KeyInvalid);
        assert_eq!(lock("").unwrap_err().kind(), ErrorKind::KeyInvalid);
    }

    /// The vectors of RFC 4648.
    #[test]
    fn base64_is_that_of_the_standard() {
        for (plain, encoded) in
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE")]
        {
            let mut text = String::new();
            base64url(plain.as_bytes(), &mut text);
            assert_eq!(text, encoded);
        }
        let mut text = String::new();
        base64url(&[0xfb, 0xff, 0xfe], &mut text);
        assert_eq!(text, "-__-");
    }
}
