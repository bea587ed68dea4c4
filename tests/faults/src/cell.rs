//! One cell of the table: what all calls of one operation got during one fault.

use crate::seen::{Seen, Speed};
use std::fmt;

/// Text that was seen, or a set of which all that was seen is a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell(String);

impl Cell {
    /// All calls got the same; or the first ones this, and later ones that.
    #[must_use]
    pub fn of(seen: &[Seen]) -> Self {
        let mut runs: Vec<(&str, Vec<Speed>)> = Vec::new();
        for one in seen {
            match runs.last_mut() {
                Some((words, speeds)) if *words == one.words => speeds.push(one.speed),
                _ => runs.push((&one.words, vec![one.speed])),
            }
        }
        assert!((1..=3).contains(&runs.len()), "neither the same all the time nor in a few steps: {seen:?}");
        let texts = runs.into_iter().map(|(words, speeds)| {
            // The fastest: nothing makes a call that waits for a timeout faster, and a busy machine makes any slower.
            let speed = speeds.into_iter().min().unwrap_or(Speed::Connect);
            format!("`{words}`{}", speed.after())
        });
        Self(texts.collect::<Vec<_>>().join("; then "))
    }

    /// Panics unless all calls got one of these. It does not say which.
    #[must_use]
    pub fn among(allowed: &[&str], seen: &[Seen]) -> Self {
        assert!(!seen.is_empty(), "nobody asked");
        for one in seen {
            assert!(allowed.contains(&one.words.as_str()), "{one:?} is none of {allowed:?}");
        }
        let slowest = Speed::OneTimeout.max(seen.iter().map(|one| one.speed).max().unwrap_or(Speed::AtOnce));
        let allowed: Vec<_> = allowed.iter().map(|words| format!("`{words}`")).collect();
        Self(format!("{}, {}", allowed.join(" or "), slowest.at_most()))
    }

    /// All calls got the same, some sooner, some later: which is for the surroundings to say. `time` is said of all.
    #[must_use]
    pub fn in_its_time(seen: &[Seen], time: &str) -> Self {
        let words = &seen.first().expect("nobody asked").words;
        assert!(seen.iter().all(|one| one.words == *words), "not the same all the time: {seen:?}");
        Self(format!("`{words}`, {time}"))
    }

    /// Panics unless some calls got the first and some one of the others, and none anything else.
    #[must_use]
    pub fn some_of_each(good: &str, others: &[&str], seen: &[Seen]) -> Self {
        let hits = seen.iter().filter(|one| one.words == good).count();
        assert!((1..seen.len()).contains(&hits), "{hits} of {} got `{good}`", seen.len());
        let (_, bad) = seen.iter().cloned().partition::<Vec<_>, _>(|one| one.words == good);
        Self(format!("`{good}`; for the keys of the dead one {}", Self::among(others, &bad)))
    }

    /// What a scenario has seen by other means.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    fn seen(words: &str, speed: Speed) -> Seen {
        Seen { words: words.to_owned(), speed }
    }

    #[test]
    fn a_cell_tells_the_first_and_the_later_calls_apart() {
        let (slow, fast) = (seen("miss", Speed::OneTimeout), seen("hit", Speed::AtOnce));
        assert_eq!(Cell::of(std::slice::from_ref(&fast)).to_string(), "`hit`");
        let cell = Cell::of(&[slow.clone(), slow.clone(), fast.clone(), seen("hit", Speed::OneTimeout)]);
        assert_eq!(cell.to_string(), "`miss` after one timeout; then `hit`");
        assert!(catch_unwind(|| Cell::of(&[slow.clone(), fast.clone(), slow.clone(), fast.clone()])).is_err());
        assert!(catch_unwind(|| Cell::among(&["hit"], &[slow])).is_err());
        assert!(catch_unwind(|| Cell::among(&["hit"], &[])).is_err());
    }
}
