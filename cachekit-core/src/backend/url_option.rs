//! The error for an option of a URL that the backend does not have.

use crate::{BackendError, ErrorKind};

/// Refuses an option of a URL that is none of the `known` ones: it names the nearest and lists all.
///
/// What cannot be the name of an option is not repeated, since half of a password may stand there.
///
/// ```
/// let error = cachekit_core::unknown_option("flatfile", "sync_evry_ms", &["path_mode", "sync_every_ms"]);
/// assert!(error.to_string().contains("the nearest is `sync_every_ms`"));
/// ```
#[must_use]
pub fn unknown_option(backend: &str, name: &str, known: &[&str]) -> BackendError {
    let all = known.join(", ");
    let invalid = |why: String| BackendError::new(ErrorKind::ConfigInvalid, why);
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

    #[test]
    fn half_of_a_password_is_not_repeated() {
        for name in ["hunter2", "p@ss", &"x".repeat(33), "a b"] {
            let error = unknown_option("b", name, &["one", "two"]).to_string();
            assert!(!error.contains(name) && error.contains("one, two"), "{error}");
        }
    }

    #[test]
    fn the_nearest_option_is_named() {
        for (name, nearest) in [("on", "one"), ("tow", "two"), ("flush", "flush_every_ms")] {
            let error = unknown_option("b", name, &["flush_every_ms", "one", "two"]).to_string();
            assert!(error.contains(&format!("nearest is `{nearest}`")), "{error}");
        }
    }
}
